# lib.sh - what the tests of ranks share; sourced with BUILD and SOURCE set. Makes $WORK, removed at the end, and the cache
# $WORK/store; what the ranks print is $WORK/<job>.<rank>.json.
set -eu
WORK=$(mktemp -d)
export HOME=$WORK ATTUNE_TEMPLATE_PATH="$SOURCE/tests/cluster/templates" ATTUNE_CACHE=$WORK/store
unset ATTUNE_DEVICE ATTUNE_MEASURE ATTUNE_HELPER
for name in $(compgen -e | grep -E '^(SLURM|OMPI|PMI|PMIX)' || true); do unset "$name"; done
ATTUNE=$BUILD/cli/attune
PROBLEM="test.share elements=100"
fail() { echo "FAILED: $*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
"$ATTUNE" compile --problem "$PROBLEM" --target host -o "$WORK/object" >"$WORK/compile.log" 2>&1 || {
  status=$?
  cat "$WORK/compile.log"
  [ "$status" = 3 ] && skip "no compiler for the host device is here"
  fail "compiling for the host device"
}
rm -rf "$WORK/store"

# answers JOB EXPRESSION FILE...: the Python expression must be true of `rows` (each rank's results), `ranks` (each rank's
# "ranks") and `journals()` (run id -> lines) of the answers
answers() {
  python3 - "$@" <<'PYTHON' || fail "$1: not so: $2"
import glob, json, os, sys
job, expression, files = sys.argv[1], sys.argv[2], sys.argv[3:]
answers = [json.load(open(name)) for name in files]
rows = [answer.get("results") for answer in answers]
ranks = [answer.get("ranks") for answer in answers]
def lines(name):
    return [json.loads(line) for line in open(name) if line.endswith("\n")]
def journals():
    return {os.path.basename(name)[:-6]: lines(name) for name in glob.glob(os.environ["ATTUNE_CACHE"] + "/journals/*.jsonl")}
def records():
    return [json.load(open(name)) for name in glob.glob(os.environ["ATTUNE_CACHE"] + "/records/host*/*/*.json")]
def same(values):
    return len(set(values)) == 1
def outcomes(run):
    return [line["id"] for line in journals()[run] if line["kind"] == "outcome"]
if not eval(expression):
    print(json.dumps({"rows": rows, "ranks": ranks}, indent=1)[:6000])
    sys.exit(1)
PYTHON
  echo "  $1: $2"
}
