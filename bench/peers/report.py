"""report.py - the table and the verdict over what peers.py measured; needs neither torch nor a GPU."""
import math
import statistics

import rounds

TITLES = {"attune": "attune", "flash": "FlashAttention-2", "cudnn": "cuDNN", "efficient": "memory-efficient",
          "flex": "FlexAttention"}


def rate(cell, name):
    """(TFLOP/s, its deviation), (None, None) where there is no time"""
    median, deviation = rounds.middle(cell["contenders"][name].get("milliseconds", []))
    if median is None:
        return None, None
    tflops = cell["operations"] / median / 1e9
    return tflops, tflops * deviation / median


def ratio(cell, other):
    """How many times as fast attune is as the other: (median, deviation) over the rounds. (None, None) where one of them has
    no time or an output that is not right: then there is nothing to compare."""
    mine, its = cell["contenders"].get("attune", {}), cell["contenders"].get(other, {})
    if mine.get("status") != "right" or its.get("status") != "right":
        return None, None
    return rounds.ratio(mine.get("milliseconds", []), its.get("milliseconds", []))


def entry(cell, name):
    contender = cell["contenders"][name]
    tflops, deviation = rate(cell, name)
    if contender["status"] != "right":
        return contender["status"]
    return "right, not timed" if tflops is None else "%.0f ± %.1f" % (tflops, deviation)


def against(cell, name):
    median, deviation = ratio(cell, name)
    return "-" if median is None else "%.2f ± %.2f" % (median, deviation)


def mean(result, other):
    """geometric mean of the ratios there are; None where there is none"""
    found = [ratio(cell, other)[0] for cell in result["cells"]]
    found = [one for one in found if one is not None]
    return math.exp(statistics.fmean(map(math.log, found))) if found else None


def table(result):
    """the lines of the Markdown table: TFLOP/s"""
    names = result["contenders"]
    others = [name for name in names if name != "attune"]
    head = ["type", "head size", "causal", "seqlen"] + [TITLES[name] for name in names]
    head += ["attune / %s" % TITLES[name] for name in others] + ["plan", "largest error / allowed"]
    yield "| %s |" % " | ".join(head)
    yield "|---" * len(head) + "|"
    for cell in result["cells"]:
        plan = cell["contenders"].get("attune", {}).get("plan")
        row = [cell["dtype"], "%d" % cell["head_dim"], "yes" if cell["causal"] else "no", "%d" % cell["seqlen"]]
        row += [entry(cell, name) for name in names] + [against(cell, name) for name in others]
        row.append("`%s` %s" % (plan["candidate_id"], plan["rung"]) if plan else "-")
        errors = [cell["contenders"][name].get("error") for name in names]
        row.append(", ".join("-" if error is None else "%.2g" % error for error in errors))
        yield "| %s |" % " | ".join(row)


def notes(result):
    """what stands below the table: means, what is missing and why"""
    for other in result["contenders"]:
        middle = mean(result, other) if other != "attune" else None
        if middle is not None:
            yield "attune / %s: %.2f (geometric mean of the cells that have a ratio)" % (TITLES[other], middle)
    kinds = {}
    for cell in result["cells"]:
        for name, contender in cell["contenders"].items():
            if contender["status"] != "right":
                kinds.setdefault((name, contender["status"], contender["reason"]), []).append(cell["name"])
    for (name, status, reason), where in kinds.items():
        yield "%s is %s in %s: %s" % (TITLES[name], status, ", ".join(where), reason)


def heading(result):
    machine, ceiling = result["machine"], result.get("ceiling", {})
    yield "Device: %s (%s), %s; %s." % (machine["device"], machine["target"], machine["driver"], ", ".join(
        "%s %s" % (key, machine[key]) for key in ("torch", "cuda", "cudnn", "attune") if key in machine))
    for dtype, rates in ceiling.items():
        yield "Matrix product of type %s in the same run: %s TFLOP/s, before and after." % (
            dtype, ", ".join("%.0f" % one for one in rates))


def markdown(result):
    return [*heading(result), "", *table(result), "", *("- " + note for note in notes(result))]


def faults(result, gate=None, against_name="flash"):
    """Why the run is no success: attune missing or wrong somewhere, an output of anybody's that is wrong, a ratio below the
    gate or none where a gate is asked for."""
    for cell in result["cells"]:
        for name, contender in cell["contenders"].items():
            if contender["status"] == "wrong" or (name == "attune" and contender["status"] != "right"):
                yield "%s: %s is %s: %s" % (cell["name"], TITLES[name], contender["status"], contender["reason"])
        if gate is not None:
            found = ratio(cell, against_name)[0]
            if found is None:
                yield "%s: no ratio to %s, where at least %.2f is asked for" % (cell["name"], TITLES[against_name], gate)
            elif found < gate:
                yield "%s: %.3f times %s, below %.2f" % (cell["name"], found, TITLES[against_name], gate)
