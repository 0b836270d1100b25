# shellcheck shell=bash
# lib.sh - what the scripts share: finding the tree, installing packages, building, logs. Sourced by bash.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${ATTUNE_JOBS:-$(nproc)}
APT=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=2)
APT_UPDATED=""
ABSENT=()  # what could not be had, a sentence each
WANTED=""  # the packages that would bring it

say() { printf '\n== %s\n' "$*"; }

# How root is reached: nothing in front when we are root, sudo where it works (it may ask on a terminal), else not at all.
can_install() {
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

installed() { # all of the packages named
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || return 1
  done
}

# The name under which the distribution has a package: itself or, since Ubuntu 24.04 and Debian 13, with t64.
available() {
  local name
  for name in "$1" "$1t64"; do
    if installed "$name" || LC_ALL=C apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
      echo "$name"
      return 0
    fi
  done
  return 1
}

refresh_packages() {
  [ -n "$APT_UPDATED" ] && return 0
  APT_UPDATED=yes
  as_root apt-get "${APT[@]}" -o APT::Update::Error-Mode=any update -qq >"$LOGS/apt-update.log" 2>&1 && return 0
  echo "note: the package lists could not all be refreshed; going on with those that are here"
  tail -n 1 "$LOGS/apt-update.log"
}

# package_group "what for" "a b" ["c d" ...]: the first alternative that is there, else installed. 1 when none can be.
package_group() {
  local purpose=$1 alternative name found names
  shift
  if ! command -v apt-get >/dev/null; then
    ABSENT+=("$purpose ($1): this system has no apt-get")
    return 1
  fi
  for alternative in "$@"; do
    names=()
    for name in $alternative; do
      names+=("$(available "$name" || echo "$name")")
    done
    installed "${names[@]}" && return 0
  done
  if ! can_install; then
    ABSENT+=("$purpose ($1): not installed, and this user can install nothing")
    WANTED+=" $1"
    return 1
  fi
  refresh_packages
  for alternative in "$@"; do
    names=()
    found=yes
    for name in $alternative; do
      name=$(available "$name") || { found=""; break; }
      names+=("$name")
    done
    [ -n "$found" ] || continue
    echo "installing ${names[*]} ($purpose)"
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get "${APT[@]}" install -y -qq --no-install-recommends \
      "${names[@]}" >"$LOGS/apt.log" 2>&1 </dev/null; then
      return 0
    fi
    tail -n 3 "$LOGS/apt.log"
  done
  ABSENT+=("$purpose ($1): not installed, and apt-get could not install it")
  WANTED+=" $1"
  return 1
}

have_compilers() { command -v gcc >/dev/null && command -v g++ >/dev/null && command -v ld >/dev/null; }
have_build_tools() {
  command -v ninja >/dev/null && command -v pkg-config >/dev/null && cmake --list-presets -S "$ROOT" >/dev/null 2>&1
}
have_libraries() { pkg-config --exists lua5.4 jansson libsodium 2>/dev/null; }
have_launchers() { command -v srun >/dev/null && command -v mpirun >/dev/null && [ -x /usr/sbin/munged ]; }
# Their packages start daemons unless policy-rc.d says no. The tests start their own.
install_launchers() {
  local policy=/usr/sbin/policy-rc.d made="" status=0
  if command -v apt-get >/dev/null && can_install && [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod +x "$policy" && made=yes
  fi
  package_group "tests of ranks under Slurm and MPI" "slurm-wlm munge openmpi-bin" || status=$?
  [ -z "$made" ] || as_root rm -f "$policy"
  return "$status"
}
have_libfuzzer() {
  echo 'int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return data == 0 && size > 0; }' |
    clang -fsanitize=fuzzer,address,undefined -x c - -o "$LOGS/have-libfuzzer" 2>/dev/null
}
have_test_library() { pkg-config --exists cmocka 2>/dev/null; }

# need CHECK package_group's arguments: nothing is installed where the check succeeds, wherever the thing came from
need() {
  local check=$1
  shift
  "$check" || package_group "$@" || MISSING=yes
}

install_build_packages() { # [tests]
  MISSING="" WANTED=""
  need have_compilers "compilers" "gcc g++ binutils"
  need have_build_tools "build tools" "cmake ninja-build pkg-config" "cmake ninja-build pkgconf"
  need have_libraries "libraries" "liblua5.4-dev libjansson-dev libsodium-dev"
  [ "${1:-}" != tests ] || need have_test_library "test library" "libcmocka-dev"
  [ "${1:-}" != tests ] || [ -e /usr/share/i18n/locales/de_DE ] || package_group "a locale with a decimal comma for tests" "locales" || true
  [ "${1:-}" != tests ] || command -v python3 >/dev/null || package_group "the tests of the interface from Python" "python3" || true
  [ "${1:-}" != tests ] || command -v strace >/dev/null || package_group "the test that watches every file that is made" "strace" || true
  [ "${1:-}" != tests ] || have_launchers || install_launchers || true
  [ -n "$MISSING" ] || return 0
  echo "cannot build without these:"
  printf '  %s\n' "${ABSENT[@]}"
  echo "Install them as root, then run this again:"
  echo "  apt-get update && apt-get install --no-install-recommends$WANTED"
  return 1
}

# What makes kernels for GPUs. None of it is needed to build; what is absent is told, and its tests are skipped by name.
install_toolchain_packages() {
  WANTED=""
  package_group "AMD kernels through hiprtc" "libamdhip64-5 libamd-comgr2" "libamdhip64-6 libamd-comgr2" || true
  package_group "AMD kernels for targets newer than hiprtc; clang-22 comes from Debian's security suite" \
    "clang-22 lld-22" "clang-21 lld-21" "clang-20 lld-20" "clang-19 lld-19" "clang-18 lld-18" || true
  if ! find_nvrtc; then
    ABSENT+=("NVIDIA kernels through NVRTC (it comes with CUDA or the PyPI wheel nvidia-cuda-nvrtc, not with Debian main)")
  fi
  tell_absent
}

tell_absent() {
  local line
  for line in "${ABSENT[@]}"; do
    echo "absent: $line"
  done
}

find_nvrtc() {
  local folder
  ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' && return 0
  for folder in /usr/local/cuda/lib64 ${CUDA_HOME:+"$CUDA_HOME/lib64"} ${CUDA_PATH:+"$CUDA_PATH/lib64"} \
    $(tr ':' ' ' <<<"${LD_LIBRARY_PATH:-}"); do
    compgen -G "$folder/libnvrtc.so.1[23]*" >/dev/null && return 0
  done
  return 1
}

# run_logged NAME command...: output to a log, its end shown when it fails
run_logged() {
  local name=$1
  shift
  if "$@" >"$LOGS/$name.log" 2>&1; then
    return 0
  fi
  tail -n 40 "$LOGS/$name.log"
  echo "failed: $name (whole log: $LOGS/$name.log)"
  return 1
}

build_preset() { # PRESET [cmake arguments]
  local preset=$1
  shift
  run_logged "configure-$preset" cmake --preset "$preset" "$@" && run_logged "build-$preset" cmake --build --preset "$preset" -j "$JOBS"
}

cd "$ROOT" || exit 1
LOGS=$ROOT/build/logs
mkdir -p "$LOGS"
