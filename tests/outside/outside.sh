#!/usr/bin/env bash
# outside.sh BUILD SOURCE SANITIZERS - a C++ and a Python program that know nothing of attune but what is installed: they do
# real work on the host device, then call every function of the headers with wrong arguments, which answers a status.
set -eu
BUILD=$1 SOURCE=$2 SANITIZERS=${3:-}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
PREFIX="$WORK/an installed attune"
HERE=$SOURCE/tests/outside
CXX=${CXX:-c++} CC=${CC:-cc}

fail() { echo "FAILED: $*"; [ ! -s "$WORK/trail" ] || { echo "last call:"; cat "$WORK/trail"; }; exit 1; }
for tool in "$CXX" "$CC" python3 pkg-config; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

cmake --install "$BUILD" --prefix "$PREFIX" >"$WORK/install.log" 2>&1 || { cat "$WORK/install.log"; fail "installation"; }
LIB=$(dirname "$(find "$PREFIX" -name 'libattune.so')")
for name in $(compgen -e ATTUNE_); do unset "$name"; done
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$WORK
python3 "$HERE/header.py" "$PREFIX/include" "$WORK" || fail "the headers cannot be read"

# the struct layouts as a C and a C++ compiler see them
$CC -std=c99 -Wall -Wextra -Werror "-I$PREFIX/include" "$WORK/layout.c" -o "$WORK/layout" && "$WORK/layout" >"$WORK/layout.txt"
$CXX -x c++ -std=c++11 "-I$PREFIX/include" "$WORK/layout.c" -o "$WORK/layout" && "$WORK/layout" >"$WORK/layout.cpp.txt"
cmp "$WORK/layout.txt" "$WORK/layout.cpp.txt" || fail "C and C++ see different structs"

flags="-std=c++20 -Wall -Wextra -Wshadow -Werror -O1 -g -pthread"
[ -z "$SANITIZERS" ] || flags="$flags -fsanitize=$SANITIZERS -fno-sanitize-recover=all"
export PKG_CONFIG_PATH="$LIB/pkgconfig"
eval "$CXX $flags '-I$WORK' '$HERE/outside.cpp' -o '$WORK/outside' '-Wl,-rpath,$LIB' $(pkg-config --cflags --libs attune-jit attune)" ||
  fail "a C++ program by pkg-config"
"$WORK/outside" "$WORK/store" "$WORK/trail" || fail "the C++ program"
if [ -z "$SANITIZERS" ]; then
  CMAKE_PREFIX_PATH=$PREFIX cmake -G Ninja -S "$HERE/consumer" -B "$WORK/consumer" -DPROGRAM="$HERE/outside.cpp" \
    -DGENERATED="$WORK" >"$WORK/cmake.log" 2>&1 && cmake --build "$WORK/consumer" >>"$WORK/cmake.log" 2>&1 ||
    { cat "$WORK/cmake.log"; fail "a C++ program by the CMake package"; }
  "$WORK/consumer/outside" "$WORK/store" "$WORK/trail" || fail "the C++ program built by CMake"
fi

preload=
case $SANITIZERS in
  *address*) preload=$($CC -print-file-name=libasan.so) ;;
  *thread*) preload=$($CC -print-file-name=libtsan.so) ;;
esac
python() { # Python's own memory is not ours to judge
  ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" LD_PRELOAD="$preload" python3 "$@"
}
if ! python -c 'import ctypes' 2>/dev/null; then
  echo "skipped: python3 does not run with $preload"
else
  python "$HERE/outside.py" "$PREFIX/include" "$LIB" "$WORK/store python" "$WORK/layout.txt" "$WORK/trail" || fail "the Python program"
fi
echo "attune works from outside"
