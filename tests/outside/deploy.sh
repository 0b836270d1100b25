#!/usr/bin/env bash
# deploy.sh BUILD SOURCE FAKE_HIP - C07: a store made without a GPU serves another installation, another user and a device that
# was not there, where nothing may be compiled and no compiler could be found. FAKE_HIP stands in for an MI50's driver.
set -eu
BUILD=$1 SOURCE=$2 FAKE_HIP=$3
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
MAKER="$WORK/maker" USER_AREA="$WORK/a user's \"area\" é"
fail() { echo "FAILED: $*"; exit 1; }
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
for name in $(compgen -e ATTUNE_); do unset "$name"; done
export DEPLOY_PROBLEM="attention.forward dtype=f16 batch=1 heads=4 kv_heads=2 seqlen_q=8 seqlen_k=8 head_dim=32 causal=1 lse=1"
export PYTHONDONTWRITEBYTECODE=1

cmake --install "$BUILD" --prefix "$MAKER" >"$WORK/install.log" 2>&1 || { cat "$WORK/install.log"; fail "installation"; }
made() { "$MAKER/bin/attune" compile --defaults --problem "$DEPLOY_PROBLEM" --store "$WORK/store" --json "$@"; }
DEVICES=host TARGETS="--target host"
status=0
made --target host >"$WORK/host.json" 2>"$WORK/errors" || status=$?
[ "$status" != 3 ] || { echo "skipped: no C++ compiler for the host device"; exit 77; }
[ "$status" = 0 ] || { cat "$WORK/errors"; fail "the warm-up"; }
if made --target gfx906 >"$WORK/gfx906.json" 2>"$WORK/errors"; then
  DEVICES="host hip:0" TARGETS="$TARGETS --target gfx906"
else
  echo "skipped: gfx906: $(cat "$WORK/errors")"
fi
# again: nothing is made, and all of it is listed
made $TARGETS >"$WORK/listed.json" || fail "the second warm-up"
if grep -q '"reused": *false' "$WORK/listed.json"; then fail "the second warm-up compiled: $(cat "$WORK/listed.json")"; fi

# another prefix; the maker's is gone
mkdir -p "$USER_AREA"
cp -r "$MAKER" "$USER_AREA/installed" && cp -r "$WORK/store" "$USER_AREA/store" && cp "$WORK/listed.json" "$FAKE_HIP" "$USER_AREA/"
cp -r "$SOURCE/tests/outside" "$USER_AREA/tests"
rm -rf "$MAKER" "$WORK/store"
LIB=$(dirname "$(find "$USER_AREA/installed" -name 'libattune.so')")
AS=()
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups true; then
  AS=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  chmod 755 "$WORK" && chown -R 65534:65534 "$USER_AREA"
else
  echo "skipped: another user: not root"
fi
# no compiler, no helper, no home: nothing could be compiled even by mistake
PYTHON=
for python in "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" /usr/bin/python3; do
  if "${AS[@]}" env "$python" -c 'import ctypes' 2>/dev/null; then PYTHON=$python; break; fi
done
if [ -z "$PYTHON" ]; then
  echo "skipped: another user: python3 is not there for it"
  AS=() PYTHON=$(command -v python3)
  chown -R "$(id -u)" "$USER_AREA"
fi
# shellcheck disable=SC2086
"${AS[@]}" env -i PATH=/nonexistent DEPLOY_PROBLEM="$DEPLOY_PROBLEM" PYTHONDONTWRITEBYTECODE=1 ATTUNE_HELPER=/nonexistent/attune-helper \
  ATTUNE_CUDA_LIBRARY=/nonexistent/libcuda.so ATTUNE_HIP_LIBRARY="$USER_AREA/$(basename "$FAKE_HIP")" \
  "$PYTHON" "$USER_AREA/tests/deploy.py" "$USER_AREA/installed/include" "$LIB" "$USER_AREA/store" "$USER_AREA/listed.json" \
  "$USER_AREA/trail" $DEVICES || fail "the deployed program"
[ -z "$(find "$USER_AREA/store/rejected" -type f 2>/dev/null)" ] || fail "something of the copy was set aside"
echo "the copied store serves $DEVICES"
