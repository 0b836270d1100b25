"""rounds.py - timing several contenders fairly: every one once in each round, in another order each time; medians.

A sample is a number of milliseconds a launch. Clocks, heat and the work of others drift over a run; within a round they
are the same for all, so contenders are compared round by round.
"""
import math
import statistics


def order_of(names, number):
    """The order of one round: each round begins at another contender, and every second one goes backwards, so that
    nobody always follows the same one."""
    shift = number // 2 % len(names)
    turned = names[shift:] + names[:shift]
    return turned if number % 2 == 0 else turned[::-1]


def hold(samplers, count):
    """samplers: {name: function that takes one sample}; returns {name: [a sample of every round]}"""
    names, samples = list(samplers), {name: [] for name in samplers}
    for number in range(count):
        for name in order_of(names, number):
            samples[name].append(samplers[name]())
    return samples


def middle(samples):
    """median and median absolute deviation; (None, None) where a sample is no time"""
    if not samples or not all(math.isfinite(sample) and sample > 0 for sample in samples):
        return None, None
    median = statistics.median(samples)
    return median, statistics.median(abs(sample - median) for sample in samples)


def ratio(samples, others):
    """How many times as fast `samples` are as `others`: median and its deviation of others / samples, round by round."""
    if middle(samples)[0] is None or middle(others)[0] is None or len(samples) != len(others):
        return None, None
    return middle([other / mine for mine, other in zip(samples, others)])


def launches(milliseconds, sample_milliseconds, limit=1000):
    """how many launches make one sample of about that length"""
    return max(1, min(limit, math.ceil(sample_milliseconds / milliseconds))) if milliseconds > 0 else limit
