#!/usr/bin/env python3
"""peers.py - attention.forward by attune and by torch's backends, on the same tensors in the same run.

  peers.py --list                       the cells as a problem list, for `attune tune --problems`
  peers.py --library FILE --store STORE measure: every contender once a round, on inputs from N(0,1)
  peers.py --device host ...            on the CPU: outputs are judged, nothing is timed

Every row of every output is compared with fp64; one that is wrong has no ratio. The store must have a plan for each cell:
nothing is compiled here. Exit code: 0; 1 an output is wrong, attune has no plan, or a ratio is below --gate; 2 usage;
3 no torch, no GPU or no library.
"""
import argparse
import json
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cells
import report
import rounds

WARM_MS = 200.0  # of launches before the first sample that counts: clocks are up then


def numbers(text):
    return [int(part) for part in text.split(",")]


def positive(text):
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("'%s' is no finite number above 0" % text)
    return value


def words_of(allowed):
    def words(text):
        for word in text.split(","):
            if word not in allowed:
                raise argparse.ArgumentTypeError("'%s' is none of %s" % (word, ", ".join(allowed)))
        return text.split(",")
    return words


def options(arguments):
    parser = argparse.ArgumentParser(prog="peers.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--list", action="store_true", help="print the problem list and end")
    add("--library", help="libattune.so of a build")
    add("--store", help="cache folder with the tuned plans")
    add("--device", default="cuda:0", help="cuda:0 (default) ... or host")
    add("--contenders", type=words_of(report.TITLES), default=["attune", "flash", "cudnn"],
        help="of attune,flash,cudnn,efficient,flex (default: the first three)")
    add("--dtype", type=words_of(cells.NAMES), default=["bf16"], help="bf16,f16 (default: bf16)")
    add("--head-dim", type=numbers, default=[64, 128, 256])
    add("--causal", type=numbers, default=[0, 1])
    add("--seqlen", type=numbers, default=[512, 2048, 4096, 16384])
    add("--tokens", type=int, default=16384, help="batch x seqlen (default: 16384)")
    add("--hidden", type=int, default=2048, help="heads x head size (default: 2048)")
    add("--layout", choices=["bshd", "bhsd"], default="bshd", help="order of axes in memory (default: bshd)")
    add("--eager", action="store_true", help="launch one by one instead of as a captured graph, every contender alike")
    add("--rounds", type=int, default=15)
    add("--sample", type=positive, default=5.0, metavar="MS", help="milliseconds of launches in one sample (default: 5)")
    add("--seed", type=int, default=1)
    add("--json", metavar="FILE", help="write all samples there, anew after each cell")
    add("--gate", type=positive, help="fail where attune / FlashAttention-2 is below this")
    chosen = parser.parse_args(arguments)
    if not chosen.list and not (chosen.library and chosen.store):
        parser.error("--library and --store are needed")
    if min(chosen.rounds, chosen.tokens, chosen.hidden, *chosen.head_dim, *chosen.seqlen) < 1:
        parser.error("sizes and --rounds are at least 1")
    if chosen.gate is not None and not {"attune", "flash"} <= set(chosen.contenders):
        parser.error("--gate needs the contenders attune and flash")
    try:
        chosen.cells = cells.grid(chosen.dtype, chosen.head_dim, chosen.causal, chosen.seqlen, chosen.tokens, chosen.hidden)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def sets_of(cell, cache_bytes):
    """how many sets of tensors go beyond twice the last cache"""
    return max(1, -(-2 * cache_bytes // cell.tensor_bytes()))


def compare(side, machine, cell, chosen):
    """One cell: {contender: what came of it}. Plans are prepared, graphs captured and caches warm before the first sample;
    outputs are judged after the last one, as the timed launches write them."""
    work = side.Work(machine, cell, sets_of(cell, machine.cache_bytes()), chosen.seed)
    found, ready = {}, {}
    for name in chosen.contenders:
        try:
            ready[name] = side.Contender(machine, work.calls(name), chosen.sample, rounds.launches)
            found[name] = {"launches": ready[name].launches}
        except Exception as error:  # of many kinds: whatever keeps a contender away is its result
            found[name] = {"status": "refused", "reason": ("%s: %s" % (type(error).__name__, error)).splitlines()[0]}
    if machine.timed and ready:
        samplers = {name: contender.sample for name, contender in ready.items()}
        rounds.hold(samplers, math.ceil(WARM_MS / (chosen.sample * len(ready))))
        for name, samples in rounds.hold(samplers, chosen.rounds).items():
            found[name]["milliseconds"] = samples
        samplers.clear()
    while ready:  # graphs go before the plan whose kernels are in them
        name, contender = ready.popitem()
        found[name].update(judge(work, contender))
        del contender
    if work.plan is not None:
        found["attune"]["plan"] = work.describe_plan()
    work.close()
    return found


def judge(work, contender):
    error = work.error(contender)
    if error <= 1.0:
        return {"status": "right", "error": error}
    if not math.isfinite(error):  # no number of JSON's
        return {"status": "wrong", "error": None, "reason": "some values are not written, NaN or infinite"}
    return {"status": "wrong", "error": error,
            "reason": "the largest error of a row is %.3g times the allowed one" % error}


def write(path, result):
    """whole or not at all"""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def measure(side, machine, chosen):
    result = {"peers": 1, "machine": machine.describe(), "contenders": chosen.contenders, "rounds": chosen.rounds,
              "inputs": "N(0,1)", "seed": chosen.seed, "ceiling": {}, "cells": []}

    def ceilings():
        for dtype in chosen.dtype if machine.timed else []:
            result["ceiling"].setdefault(dtype, []).append(machine.ceiling(dtype))

    ceilings()
    for cell in chosen.cells:
        row = dict(cell.describe(), contenders=compare(side, machine, cell, chosen))
        machine.release()
        result["cells"].append(row)
        told = ["%s %s" % (name, report.entry(row, name)) for name in chosen.contenders]
        print("%s: %s" % (cell.name, ", ".join(told)), file=sys.stderr, flush=True)
        if chosen.json:
            write(chosen.json, result)
    ceilings()
    if chosen.json:
        write(chosen.json, result)
    return result


def main(arguments):
    chosen = options(arguments)
    if chosen.list:
        print("\n".join(cells.problem_list(chosen.cells)))
        return 0
    try:
        import torch_side
        machine = torch_side.Machine(chosen.device, chosen.library, chosen.store, chosen.layout, chosen.eager)
    except Exception as error:  # torch's, the loader's, attune's: each says what is missing
        print("peers: %s: %s" % (type(error).__name__, error), file=sys.stderr)
        return 3
    with torch_side.quiet():
        result = measure(torch_side, machine, chosen)
    machine.close()
    print("\n".join(report.markdown(result)))
    faults = list(report.faults(result, chosen.gate))
    for fault in faults:
        print("peers: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
