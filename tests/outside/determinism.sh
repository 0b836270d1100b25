#!/usr/bin/env bash
# determinism.sh BUILD COVER_NAMES - objects and records do not know who made them, where or when.
#
# Two installations under different prefixes compile the same candidates for every vendor's targets, in other folders,
# with other umask, locale, time zone and order of the environment, a second apart, as several processes. Their objects
# must have the same names and the same bytes; their records differ in nothing but run id and time.
set -eu
BUILD=$1 COVER_NAMES=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
PROBLEM="attention.forward dtype=f16 heads=2 kv_heads=1 seqlen_q=64 seqlen_k=96 head_dim=32 causal=1 lse=1"
case ${ATTUNE_TEST_SIZE:-ci} in ci) COUNT=2 ;; full) COUNT=40 ;; *) fail "ATTUNE_TEST_SIZE is ci or full" ;; esac
TARGETS="gfx906 gfx942 gfx1100 sm_90a host host-gfx906"

NEAR="$WORK/a" FAR="$WORK/another prefix, \"quoted\" and much longer/é"
for prefix in "$NEAR" "$FAR"; do
  cmake --install "$BUILD" --prefix "$prefix/installed" >"$WORK/install.log" 2>&1 || { cat "$WORK/install.log"; fail "installation"; }
  mkdir -p "$prefix/tmp" "$prefix/current folder" "$prefix/home"
done
for target in $TARGETS; do
  "$COVER_NAMES" "$PROBLEM" "$target" "$COUNT" 7 >"$WORK/candidates-$target"
done

compile() { # PREFIX TARGET CANDIDATES environment...: into PREFIX/store
  local prefix=$1 target=$2 candidates=$3
  shift 3
  (cd "$prefix/current folder" && env -i "$@" "$prefix/installed/bin/attune" compile --space --problem "$PROBLEM" --target "$target" \
    --candidates "$candidates" --store "$prefix/store" --json >"$prefix/out-$target.json" 2>"$prefix/err-$target")
}
near() { # the usual
  umask 022
  compile "$NEAR" "$1" "$WORK/candidates-$1" PATH="$PATH" HOME="$NEAR/home" TMPDIR="$NEAR/tmp" LC_ALL=C USER=one
}
far() { # all else, and the candidates in another order
  umask 077
  tac "$WORK/candidates-$1" >"$FAR/candidates"
  compile "$FAR" "$1" "$FAR/candidates" ZZZ=last USER=another LANG=tr_TR.UTF-8 LC_ALL=de_DE.UTF-8 TZ=Asia/Kathmandu TMPDIR="$FAR/tmp" \
    XDG_CACHE_HOME="$FAR/home" SOURCE_DATE_EPOCH=86400 PWD=/nowhere COLUMNS=20 TERM=xterm-256color HOME="$FAR/home" PATH="$PATH"
}

SERVED=
for target in $TARGETS; do
  status=0
  (near "$target") || status=$?
  if [ "$status" = 3 ]; then
    echo "skipped: $target: $(tail -n 1 "$NEAR/err-$target")"
    continue
  fi
  [ "$status" = 0 ] || { cat "$NEAR/err-$target"; fail "compiling for $target"; }
  SERVED="$SERVED $target"
done
sleep 1
for target in $SERVED; do
  (far "$target") || { cat "$FAR/err-$target"; fail "compiling for $target, elsewhere"; }
done
[ -n "$SERVED" ] || { echo "skipped: no compiler is here"; exit 77; }

sums() { (cd "$1/store" && find objects sources -type f -print0 | sort -z | xargs -0 sha256sum); }
sums "$NEAR" >"$WORK/near" && sums "$FAR" >"$WORK/far"
EXPECTED=$(for target in $SERVED; do cat "$WORK/candidates-$target"; done | wc -l)
[ "$(grep -c ' objects/' "$WORK/near")" = "$EXPECTED" ] || fail "$(grep -c ' objects/' "$WORK/near") objects of $EXPECTED candidates"
diff "$WORK/near" "$WORK/far" || fail "the objects above differ in name or bytes"
if grep -rlaF -e "$WORK" -e "$PWD" "$NEAR/store/objects" "$FAR/store/objects"; then fail "the objects above hold a path of this run"; fi

# records: their names end in the run id, their text has run and time
records() {
  (cd "$1/store" && find records -name '*.json' | sort | while read -r file; do
    echo "$file" | sed 's/\.[0-9a-f]\{32\}\.json$//'
    sed -E 's/"run": *"[0-9a-f]{32}"/"run"/; s/"created": *[0-9]+/"created"/; s/"check": *"[0-9a-f]+"/"check"/' "$file"
    echo
  done)
}
records "$NEAR" >"$WORK/near.records" && records "$FAR" >"$WORK/far.records"
diff "$WORK/near.records" "$WORK/far.records" || fail "the records above differ in more than run and time"
echo "$EXPECTED objects and $(grep -c '"run"' "$WORK/near.records" || true) records of$SERVED are the same"
