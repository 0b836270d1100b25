#!/usr/bin/env bash
# peers.sh BUILD SOURCE - bench/peers, with a store that is filled here for the host device.
set -eu
BUILD=$1 SOURCE=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
for name in $(compgen -e ATTUNE_); do unset "$name"; done
export PYTHONDONTWRITEBYTECODE=1 ATTUNE_HELPER=$BUILD/generator/attune-helper ATTUNE_MEASURE=$BUILD/autotune/attune-measure

python3 "$SOURCE/bench/peers/peers.py" --list --tokens 16 --hidden 16 --head-dim 8 --seqlen 8 --dtype f16 >"$WORK/cells.txt"
status=0
"$BUILD/cli/attune" tune --problems "$WORK/cells.txt" --device host --count 1 --store "$WORK/store" >"$WORK/log" 2>&1 || status=$?
[ "$status" != 3 ] || { echo "skipped: no C++ compiler for the host device"; exit 77; }
[ "$status" = 0 ] || { cat "$WORK/log"; echo "FAILED: filling the store"; exit 1; }
python3 "$SOURCE/tests/peers/peers_test.py" "$SOURCE" "$BUILD/libattune.so" "$WORK/store" "$WORK"
if python3 -c 'import torch' 2>/dev/null; then
  python3 "$SOURCE/tests/peers/with_torch.py" "$SOURCE" "$BUILD/libattune.so" "$WORK/store"
else
  echo "skipped: torch is not installed: the reference's arithmetic and a whole run on the CPU"
fi
