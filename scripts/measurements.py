#!/usr/bin/env python3
"""measurements.py FOLDER - the tables of docs/measurements.md from the JSON that scripts/gpu left in FOLDER.

Only Python's own library: it also runs where nothing can be installed.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "peers"))
import report


def load(folder, name):
    """The objects of a file, one after the other, as one whose "results" are all of theirs; {} when there is none."""
    whole = {}
    try:
        with open(os.path.join(folder, name)) as file:
            text = file.read().lstrip()
        while text:
            part, end = json.JSONDecoder().raw_decode(text)
            results = whole.get("results", []) + part.get("results", [])
            whole.update(part, results=results)
            text = text[end:].lstrip()
    except (OSError, ValueError):
        pass
    return whole


def label(row):
    return row.get("name") or row["problem"]


def peak_of(peak, problem):
    """The matrix rate of the problem's K dtype, the one whose units a tensor core would use; None where not measured."""
    return peak.get("bf16" if "k_dtype=bf16" in problem else "f16" if "k_dtype=f16" in problem else "f32")


def tuned_table(tune, peak):
    yield "| problem | default µs | winner µs | speed-up | TFLOP/s | of matmul | tried | verified | rejected | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in tune.get("results", []):
        winner, default = row["winner_microseconds"], row["default_microseconds"]
        rate = peak_of(peak, row["problem"])
        share = f"{100 * row['winner_tflops'] / rate:.0f} %" if rate else "-"
        speed = f"{default / winner:.2f}" if winner else "-"
        yield (f"| {label(row)} | {default:.1f} | {winner:.1f} | {speed} | {row['winner_tflops']:.1f} | {share} "
               f"| {row['tried']} | {row['verified']} | {row['rejected']} | {row['seconds']:.0f} |")


def winners(tune):
    for row in tune.get("results", []):
        yield f"- {label(row)}: `{row['winner']}`, compiled by {row['compiler']}"
        outcomes = ", ".join(f"{count} {name}" for name, count in row["outcomes"].items())
        looks = f"looked at {row['looks']} of {row['candidates']}, strategy {row['strategy']}"
        yield f"  - {looks}" + ("" if row["complete"] else f", until {row['ending']}")
        yield f"  - outcomes: {outcomes}"
        for reason in row["rejections"]:
            yield f"  - {reason['count']} {reason['outcome']}, for example: {reason['reason']}"


def bench_table(bench):
    yield "| problem | what | rung | µs | ± µs | TFLOP/s | GB/s | candidate |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in bench.get("results", []):
        for row in result["times"]:
            yield (f"| {label(result)} | {row['what']} | {row['plan']['rung']} | {row['microseconds']:.1f} "
                   f"| {row['spread_microseconds']:.1f} | {row['tflops']:.1f} | {row['gigabytes_per_second']:.0f} "
                   f"| `{row['plan']['id']}` |")


def default_share(bench):
    """Geometric mean of plan time over default time: how near the default comes to what tuning found."""
    product, count = 1.0, 0
    for result in bench.get("results", []):
        times = {row["what"]: row["microseconds"] for row in result["times"]}
        if times.get("plan") and times.get("default"):
            product *= times["plan"] / times["default"]
            count += 1
    return product ** (1 / count) if count else None


def verified_table(verify):
    yield "| specialisation of | candidates right | of | largest error / allowed |"
    yield "|---|---|---|---|"
    for row in verify.get("results", []):
        yield f"| {label(row)} | {row['right']} | {row['total']} | {row['worst_ratio']:.2g} |"


def speed_table(tune):
    yield "| problem | strategy | in the space | compiled or looked at | seconds | compiled/min | verified/min | timed/min | device waits | best timed again |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in tune.get("results", []):
        idle = row.get("worker_idle")
        yield (f"| {label(row)} | {row['strategy']} | {row['candidates']} | {row['tried']} | {row['seconds']:.1f} "
               f"| {row['compiled_per_minute']:.0f} | {row['verified_per_minute']:.0f} | {row['timed_per_minute']:.0f} "
               f"| {'-' if idle is None else f'{100 * idle:.1f} %'} | {row['between_seconds']:.1f} s |")


def met_times(folder):
    """Final times by candidate of the run in which the ten winners met."""
    times = {}
    try:
        with open(os.path.join(folder, "ten-met.jsonl")) as file:
            for line in map(json.loads, file):
                if line["kind"] == "outcome" and line["stage"] == "final":
                    times[line["candidate"]] = line["microseconds"]
    except (OSError, ValueError):
        pass
    return times


def ten_table(ten, folder):
    times = met_times(folder)
    best = min(times.values(), default=None)
    yield "| run | winner | default µs | winner µs | behind the best of the ten winners, measured together | seconds | device waits |"
    yield "|---|---|---|---|---|---|---|"
    for number, row in enumerate(ten["results"], 1):
        time, idle = times.get(row["winner"]), row.get("worker_idle")
        behind = f"{100 * (time / best - 1):.2f} %" if time and best else "-"
        yield (f"| {number} | `{row['winner_id']}` | {row['default_microseconds']:.1f} | {row['winner_microseconds']:.1f} "
               f"| {behind} | {row['seconds']:.1f} | {'-' if idle is None else f'{100 * idle:.1f} %'} |")


def main():
    folder = sys.argv[1]
    if sys.argv[2:3] == ["--winners"]:
        print("\n".join(sorted({row["winner"] for row in load(folder, sys.argv[3])["results"]})))
        return
    tune, bench, verify, peak = (load(folder, name + ".json") for name in ("tune", "bench", "verify", "peak"))
    rows = tune.get("results", [])
    if rows:
        print(f"Device: {rows[0]['device_name']} ({rows[0]['target']}), {rows[0]['driver']}.")
    if peak:
        rates = ", ".join(f"{name} {peak[name]:.0f} TFLOP/s" for name in ("f16", "bf16") if name in peak)
        print(f"Matrix rate: {rates} ({peak.get('method', '')}).")
    print("\n## Tuned\n")
    print("\n".join(tuned_table(tune, peak)))
    print("\nWinners and what was rejected:\n")
    print("\n".join(winners(tune)))
    print("\n## Speed of tuning\n")
    print("\n".join(speed_table(tune)))
    ten = load(folder, "ten.json")
    if ten:
        print(f"\n## One problem tuned ten times: {label(ten['results'][0])}\n")
        print("\n".join(ten_table(ten, folder)))
    print("\n## Timed again, default against plan\n")
    print("\n".join(bench_table(bench)))
    share = default_share(bench)
    if share:
        print(f"\nThe default reaches {100 * share:.0f} % of the tuned plan's rate (geometric mean).")
    print("\n## Verified at small odd lengths\n")
    print("\n".join(verified_table(verify)))
    peers = load(folder, "peers.json")
    if peers:
        print("\n## Against torch's backends\n")
        print("\n".join(report.markdown(peers)))


if __name__ == "__main__":
    main()
