#!/usr/bin/env bash
# mpi.sh BUILD SOURCE - ranks that mpirun (Debian's openmpi-bin) starts, without an option of ours.
BUILD=$1 SOURCE=$2
. "$SOURCE/tests/cluster/lib.sh"
trap 'status=$?; rm -rf "$WORK"; exit $status' EXIT
command -v mpirun >/dev/null || skip "mpirun is not here (Debian: openmpi-bin)"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
ROOT=()
[ "$(id -u)" != 0 ] || ROOT=(--allow-run-as-root)

launch() { # JOB N arguments...: $WORK/<job>.<rank>.json
  local job=$1 size=$2
  shift 2
  mpirun "${ROOT[@]}" --oversubscribe -n "$size" --output-filename "$WORK/$job" "$ATTUNE" tune --device host --json "$@" \
    >"$WORK/$job.log" 2>&1 </dev/null || { cat "$WORK/$job.log"; fail "$job: mpirun ended with $?"; }
  for ((r = 0; r < size; r++)); do
    cp "$WORK/$job/1/rank.$r/stdout" "$WORK/$job.$r.json"
  done
}

echo "three ranks of mpirun divide a problem's candidates"
launch divided 3 --problem "$PROBLEM"
M=("$WORK"/divided.{0,1,2}.json)
answers divided '[r["rank"] for r in ranks] == [0, 1, 2] and all(r["size"] == 3 and r["launcher"] == "Open MPI" for r in ranks)' "${M[@]}"
answers divided 'same(row[0]["winner"] for row in rows) and all(row[0]["complete"] and row[0]["tried"] == 14 for row in rows)' "${M[@]}"
answers divided 'sum(not row[0]["ranks"]["adopted"] for row in rows) == 1 and len(journals()) == 3' "${M[@]}"

echo "another mpirun is another job"
launch again 2 --problem "$PROBLEM"
answers again 'same(r["job"] for r in ranks) and len(journals()) == 5 and len(records()) == 2' "$WORK"/again.{0,1}.json

echo "problems are dealt out"
for n in 1 2 3 4; do echo "p$n: test.share elements=$((n * 8))"; done >"$WORK/list"
launch dealt 3 --problems "$WORK/list"
answers dealt 'all([r["name"] for r in row] == ["p1", "p2", "p3", "p4"] for row in rows) and same(tuple(r["winner"] for r in row) for row in rows)' "$WORK"/dealt.{0,1,2}.json

echo "one rank is no job of several"
launch single 1 --problem "$PROBLEM"
answers single 'ranks == [None] and rows[0][0]["complete"]' "$WORK/single.0.json"
echo "mpi.sh: all held"
