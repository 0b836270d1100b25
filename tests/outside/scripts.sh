#!/usr/bin/env bash
# scripts.sh BUILD SOURCE - scripts/targets and scripts/gpu: mistakes in their words end before anything is written.
set -u
BUILD=$1 SOURCE=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
export ATTUNE_PROGRAM=$BUILD/cli/attune PYTHONDONTWRITEBYTECODE=1
FAILED=0

# ends CODE TEXT COMMAND...: the exit code, and a part of all that is said
ends() {
  local code=$1 text=$2 found
  shift 2
  "$@" >"$WORK/said" 2>&1
  found=$?
  if [ $found != "$code" ] || ! grep -qF -- "$text" "$WORK/said"; then
    echo "FAILED: $* ended with $found, not $code, or without '$text':"
    cat "$WORK/said"
    FAILED=1
  fi
}

before=$(cksum <"$SOURCE/docs/targets.md")
ends 2 "unknown target gfx9999" python3 "$SOURCE/scripts/targets" gfx906 gfx9999
ends 2 "unknown option --bogus" python3 "$SOURCE/scripts/targets" --bogus

# a program that knows two targets and compiles for one of them
cat >"$WORK/attune" <<'PROGRAM'
#!/bin/sh
case "$*" in
  "target --json") echo '{"targets": [{"name": "gfx906", "vendor": "amd"}, {"name": "gfx908", "vendor": "amd"}]}' ;;
  *gfx906*) cat "$ATTUNE_ANSWER" ;;
  *) echo '{"error": {"message": "gfx908: no compiler"}}'; exit 3 ;;
esac
PROGRAM
chmod +x "$WORK/attune"
cat >"$WORK/answer" <<'ANSWER'
{"objects": [{"candidate": "attention.forward/fragments block_q=64", "compiler": "none", "loop": {"iteration": {"classes":
{"dot2": {"instructions": 7.25, "cycles": 29}}, "unit_cycles": {"vector": 787.6923077}, "without_published_cycles": 0},
"bound": {"multiply_share": 0.5, "unit": "vector", "share_of_peak": 0.5}, "multiply": "dot2", "waves_a_simd": {"waves": 2}},
"resources": {"accumulator_registers": 0, "vector_registers": 64, "shared_bytes": 0, "dynamic_shared_bytes": 0,
"scratch_bytes": 0}}]}
ANSWER
export ATTUNE_ANSWER=$WORK/answer
ATTUNE_PROGRAM=$WORK/attune
ends 0 "| gfx906 | fragments block_q=64 | none | 7.2 dot2 | 787.7 |" python3 "$SOURCE/scripts/targets" --no-verify gfx906
ends 1 "no row for gfx908" python3 "$SOURCE/scripts/targets" --no-verify gfx908
ends 1 "docs/targets.md stays as it was" python3 "$SOURCE/scripts/targets" --no-verify
[ "$before" = "$(cksum <"$SOURCE/docs/targets.md")" ] || { echo "FAILED: docs/targets.md was written"; FAILED=1; }

ends 2 "unknown option '--bogus'" "$SOURCE/scripts/gpu" --bogus
ends 2 "unknown step 'bogus'" "$SOURCE/scripts/gpu" "$WORK/folder" bogus
ends 2 "not 'bogus'" "$SOURCE/scripts/gpu" --prepare bogus
[ ! -e "$WORK/folder" ] || { echo "FAILED: a folder for results was made"; FAILED=1; }
ends 1 "cannot create /proc/x" "$SOURCE/scripts/gpu" /proc/x
exit $FAILED
