#!/usr/bin/env python3
"""scripts/conflicts.py - bank conflicts that `attune explain --lds` counts, against NVIDIA's counters.

  conflicts.py predict ATTUNE FILE           on any machine with a C++ compiler: one candidate of each layout, counted
  conflicts.py measure ATTUNE FILE RESULT    on the GPU, with ncu: the same launches; exit code 1 when they differ

Both sides are of one launch of one kernel whose blocks all do the same work (no mask), so that the blocks that explain ran
stand for the grid. Compared are wavefronts beyond the least: of loads (ldmatrix among them), of stores and
of asynchronous copies. $ATTUNE_CONFLICTS_TARGET (sm_90a) is what is predicted for, $ATTUNE_NCU (ncu) the profiler.
"""
import array
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

TARGET = os.environ.get("ATTUNE_CONFLICTS_TARGET", "sm_90a")
NCU = os.environ.get("ATTUNE_NCU", "ncu")
SIZES = {"batch": 1, "heads": 1, "seqlen_q": 512, "seqlen_k": 2048}
HEADS = (64, 128)
# a difference of so much of the least is noise: replays, and what the counters add for arbitration
SHARE = 0.02
OF_L1 = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_%s.sum"
OF_INSTRUCTION = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_%s.sum"
# the first of each list whose counters the GPU has, added up: by instruction where it can be told apart
COUNTERS = {
    "loads": [[OF_INSTRUCTION % "ld", OF_INSTRUCTION % "ldsm"], [OF_L1 % "ld"]],
    "stores": [[OF_INSTRUCTION % "st"], [OF_L1 % "st"]],
    "copies": [[OF_INSTRUCTION % "ldgsts"]],
}
WAVEFRONTS = ["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
              "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]
KINDS = {"read": "loads", "rows": "loads", "write": "stores", "copy": "copies"}


def attune(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("conflicts: attune %s: %s" % (words[0], done.stderr.strip() or done.stdout.strip()))
    return done.stdout


def problem(head_dim):
    return "dtype=f16 " + " ".join("%s=%d" % item for item in SIZES.items()) + " head_dim=%d" % head_dim


def candidates(program, text):
    """the first candidate of each template and layout, in the order in which a tuning tries them"""
    first = {}
    for line in attune(program, "params", "attention.forward", "--problem", text, "--target", TARGET, "--list").splitlines():
        words = line.split()
        values = dict(word.split("=", 1) for word in words[1:])
        if values.get("exact", "off") == "off":
            first.setdefault((words[0], values.get("lds_layout"), values.get("prefetch", "")[:5]), line.strip())
    return list(first.values())


def predict(program, path):
    rows = []
    for head_dim in HEADS:
        for candidate in candidates(program, problem(head_dim)):
            told = json.loads(attune(program, "explain", "--lds", "--problem", problem(head_dim), "--target", TARGET,
                                     "--candidate", candidate, "--json"))
            row = {"problem": problem(head_dim), "candidate": candidate, "id": told["id"], "rule": told["rule"]["status"]}
            for name in ("loads", "stores", "copies"):
                row[name] = {"ideal": 0, "conflicts": 0}
            for access in told["accesses"]:
                for key in ("ideal", "conflicts"):
                    row[KINDS[access["access"]]][key] += access[key] * told["grid_blocks"] // told["blocks"]
            rows.append(row)
            print("%-13s %s" % (row["id"], candidate), flush=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)


def write_array(path, shape):
    """N(0,1)-like halves without numpy: conflicts do not depend on them"""
    import random
    draw = random.Random(1)
    count = 1
    for size in shape:
        count *= size
    values = array.array("H", (0x3000 | draw.getrandbits(10) | draw.getrandbits(1) << 15 for _ in range(count)))
    head = "{'descr': '<f2', 'fortran_order': False, 'shape': %s, }" % (tuple(shape),)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode())
        values.tofile(file)


def count_on_gpu(program, row, folder):
    head_dim = int(row["problem"].rsplit("=", 1)[1])
    for name, length in (("q", SIZES["seqlen_q"]), ("k", SIZES["seqlen_k"]), ("v", SIZES["seqlen_k"])):
        write_array(os.path.join(folder, name + ".npy"), (SIZES["batch"], length, SIZES["heads"], head_dim))
    metrics = [metric for choices in COUNTERS.values() for group in choices for metric in group] + WAVEFRONTS
    command = [NCU, "--target-processes", "application-only", "--kernel-name", "regex:attention", "--launch-count", "1", "--csv",
               "--print-units", "base", "--metrics", ",".join(metrics), program, "run", "--problem", row["problem"],
               "--store", os.path.join(folder, "store")]
    for name in "qkvo":
        command += ["--" + name, os.path.join(folder, name + ".npy")]
    done = subprocess.run(command + row["candidate"].split(), capture_output=True, text=True)
    begin = done.stdout.find('"ID"')
    if done.returncode != 0 or begin < 0:
        sys.exit("conflicts: ncu: exit code %d\n%s\n%s" % (done.returncode, done.stdout[-2000:], done.stderr[-2000:]))
    found = {}
    for line in csv.DictReader(io.StringIO(done.stdout[begin:])):
        try:
            found[line["Metric Name"]] = int(float(line["Metric Value"].replace(",", "")))
        except ValueError:
            pass  # not a counter of this GPU
    return found


def measure(program, path, result_path):
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    different = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        for row in rows:
            row["counters"] = count_on_gpu(program, row, folder)
            for name, choices in COUNTERS.items():
                known = [group for group in choices if all(metric in row["counters"] for metric in group)]
                if not known:
                    print("%-13s %-6s no counter" % (row["id"], name))
                    continue
                part = row[name]
                part["counters"] = known[0]
                part["measured"] = sum(row["counters"][metric] for metric in known[0])
                compared += 1
                part["agrees"] = abs(part["measured"] - part["conflicts"]) <= SHARE * part["ideal"]
                different += not part["agrees"]
                print("%-13s %-6s counted %9d, measured %9d, least %9d %s" %
                      (row["id"], name, part["conflicts"], part["measured"], part["ideal"], "" if part["agrees"] else "DIFFERENT"))
            print("              %s" % row["candidate"], flush=True)
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    print("%d of %d numbers differ by more than %g of the least" % (different, compared, SHARE))
    return 1 if different or not compared else 0


if len(sys.argv) == 4 and sys.argv[1] == "predict":
    predict(sys.argv[2], sys.argv[3])
elif len(sys.argv) == 5 and sys.argv[1] == "measure":
    sys.exit(measure(*sys.argv[2:]))
else:
    sys.exit(__doc__)
