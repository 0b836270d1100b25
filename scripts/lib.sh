# shellcheck shell=bash
# lib.sh - what the scripts share: finding the tree, installing packages, timing groups. Sourced by bash.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${ATTUNE_JOBS:-$(nproc)}
APT_UPDATED=""
ABSENT=()

say() { printf '\n== %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo "$@"
  else
    return 1
  fi
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
    if installed "$name" || apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
      echo "$name"
      return 0
    fi
  done
  return 1
}

refresh_packages() {
  [ -n "$APT_UPDATED" ] && return 0
  APT_UPDATED=yes
  as_root apt-get update -qq >/dev/null 2>&1 || echo "note: the package lists could not be refreshed"
}

# package_group "what for" "a b" ["c d" ...]: the first alternative that is there, else installed. 1 when none can be.
package_group() {
  local purpose=$1 alternative name found names
  shift
  command -v apt-get >/dev/null || { ABSENT+=("$purpose ($1): this system has no apt-get"); return 1; }
  for alternative in "$@"; do
    names=()
    for name in $alternative; do
      names+=("$(available "$name" || echo "$name")")
    done
    installed "${names[@]}" && return 0
  done
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
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${names[@]}" \
        >"$LOGS/apt.log" 2>&1; then
      return 0
    fi
    tail -n 3 "$LOGS/apt.log"
  done
  ABSENT+=("$purpose ($1)")
  return 1
}

install_build_packages() {
  package_group "compilers" "gcc g++ binutils" &&
    package_group "build tools" "cmake ninja-build pkg-config" "cmake ninja-build pkgconf" &&
    package_group "libraries" "liblua5.4-dev libjansson-dev libsodium-dev" &&
    package_group "test library" "libcmocka-dev" && return 0
  echo "cannot build without: ${ABSENT[*]}"
  echo "install them as root, then run this again"
  return 1
}

# What makes kernels for GPUs. None of it is needed to build; what is absent is told, and its tests are skipped by name.
install_toolchain_packages() {
  package_group "AMD kernels through hiprtc" "libamdhip64-5 libamd-comgr2" "libamdhip64-6 libamd-comgr2" || true
  package_group "AMD kernels for targets newer than hiprtc; clang-22 comes from Debian's security suite" \
    "clang-22 lld-22" "clang-21 lld-21" "clang-20 lld-20" "clang-19 lld-19" || true
  if ! find_nvrtc; then
    ABSENT+=("NVIDIA kernels through NVRTC (it comes with CUDA or the PyPI wheel nvidia-cuda-nvrtc, not with Debian main)")
  fi
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
