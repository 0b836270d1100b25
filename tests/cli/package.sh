#!/usr/bin/env bash
# package.sh BUILD SOURCE - the installed package is complete: embed.c builds against it through CMake and through pkg-config,
# libattune knows no Lua, and a cache filled by embed-jit serves embed with compiling forbidden.
set -eu
BUILD=$1 SOURCE=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
PREFIX="$WORK/an installed attune"

fail() { echo "FAILED: $*"; exit 1; }

cmake --install "$BUILD" --prefix "$PREFIX" >"$WORK/install.log" 2>&1 || { cat "$WORK/install.log"; fail "installation"; }
LIB=$(dirname "$(find "$PREFIX" -name 'libattune.so')")
for file in bin/attune include/attune.h include/attune_status.h libexec/attune-helper libexec/attune-measure; do
  [ -e "$PREFIX/$file" ] || fail "$file is not installed"
done
[ "$(readelf -d "$LIB/libattune.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" = libattune.so.0 ] || fail "soname of libattune"
if nm -D "$LIB/libattune.so" | grep -i 'lua_'; then fail "libattune knows Lua"; fi
"$PREFIX/bin/attune" --version | grep -q '^attune [0-9]' || fail "the installed program does not run"

export CMAKE_PREFIX_PATH=$PREFIX
cmake -S "$SOURCE/examples" -B "$WORK/examples" -G Ninja >"$WORK/configure.log" 2>&1 &&
  cmake --build "$WORK/examples" >"$WORK/build.log" 2>&1 || { cat "$WORK"/*.log; fail "CMake package"; }

# pkg-config hands paths on as shell words, which is how a Makefile would use them
export PKG_CONFIG_PATH="$LIB/pkgconfig"
eval "cc -o '$WORK/embed' '$SOURCE/examples/embed.c' $(pkg-config --cflags --libs attune) -lm '-Wl,-rpath,$LIB'" || fail "pkg-config"

export ATTUNE_CACHE="$WORK/cache folder"
unset ATTUNE_HELPER ATTUNE_MEASURE
if ATTUNE_JIT=forbid "$WORK/embed" host 2>"$WORK/forbidden"; then fail "an empty cache served a plan"; fi
grep -q 'embed: prepare: ' "$WORK/forbidden" || fail "forbidden compile tells no reason: $(cat "$WORK/forbidden")"

if "$PREFIX/bin/attune" doctor | grep -qE '^host +(g\+\+|clang\+\+|c\+\+)'; then
  "$WORK/examples/embed-jit" host || fail "embed-jit"
  "$PREFIX/bin/attune" verify --device host --problem "dtype=f16 heads=1 seqlen_q=5 seqlen_k=7 head_dim=16" ||
    fail "verifying with the installed measuring program"
  ATTUNE_JIT=forbid "$WORK/examples/embed" host || fail "embed against the cache that embed-jit filled"
  ATTUNE_JIT=forbid "$WORK/embed" host || fail "embed built by pkg-config"
  if command -v python3 >/dev/null; then
    sed -n '/^```python/,/^```$/p' "$SOURCE/docs/runtime.md" | sed '/^```/d' >"$WORK/example.py"
    grep -qF '"~/.local/lib"' "$WORK/example.py" || fail "docs/runtime.md: the example names no folder of the libraries"
    sed -i "s|\"~/.local/lib\"|\"$LIB\"|" "$WORK/example.py"
    python3 "$WORK/example.py" >"$WORK/printed" || fail "the example of docs/runtime.md"
    [ "$(grep -o '2\.0' "$WORK/printed" | wc -l)" = 8 ] || fail "the example of docs/runtime.md printed $(cat "$WORK/printed")"
  else
    echo "skipped: python3 is not installed: the example of docs/runtime.md"
  fi
else
  echo "no C++ compiler for the host device: the examples were built, not run"
fi
echo "the installed package works"
