# SPDX-License-Identifier: Apache-2.0
# The Debian packages for building, running and testing, by the names of Debian 12 (bookworm), and what other releases
# call them. Source it after common.sh, then call install_packages with some of the lists.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the lists are read by the scripts that source this file

# libopenblas0-pthread: LibTorch runs with any BLAS, but the reference one is several times slower.
# catch2: the build tree is configured once, tests included.
EQT_BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config
  libtorch-dev libopenblas0-pthread libopenmpi-dev openmpi-bin
  libcli11-dev nlohmann-json3-dev libfmt-dev libhwy-dev libeigen3-dev zlib1g-dev libzip-dev
  libpng-dev libjpeg62-turbo-dev libwebp-dev libarchive-dev libisal-dev libxxhash-dev libutf8proc-dev
  libonnx-dev libprotobuf-dev catch2
)
EQT_DATA_PACKAGES=(dataset-fashion-mnist)
# clang, libclang-rt-dev: libFuzzer. python3-pil: Pillow reads pictures as torchvision does.
# iproute2, mount: the links of netlab.sh. procps: pgrep.
# openssh-server, openssh-client, rsync, sudo: the hosts of rack.sh.
# gnuplot-nox: plots; without it there are only tables. xz-utils: archives of runs.
EQT_TEST_PACKAGES=(python3 python3-torch python3-pil clang-format-14 clang libclang-rt-dev iproute2 procps
  gnuplot-nox openssh-server openssh-client rsync sudo xz-utils mount)
# libbenchmark-dev: the speed rows of tests/bench. libdnnl-dev: oneDNN beside our convolutions.
# iperf3: measures links.
EQT_BENCH_PACKAGES=(libbenchmark-dev libdnnl-dev iperf3)
EQT_ARM64_PACKAGES=(g++-aarch64-linux-gnu qemu-user-static)
# Unpacked into a folder, never installed.
EQT_ARM64_LIBRARIES=(libhwy1 libhwy-dev libfmt9 libfmt-dev zlib1g zlib1g-dev libxxhash0 libxxhash-dev catch2 nlohmann-json3-dev
  libeigen3-dev libisal2 libisal-dev libpng16-16 libpng-dev libutf8proc2 libutf8proc-dev libzip4 libzip-dev
  libjpeg62-turbo libjpeg62-turbo-dev libwebp7 libwebp-dev libarchive13 libarchive-dev)
# Dependencies of libzip and libarchive.
EQT_ARM64_LIBRARIES+=(libbz2-1.0 libffi8 libgmp10 libgnutls30 libhogweed6 libidn2-0 liblzma5 libnettle8 libp11-kit0
  libssl3 libtasn1-6 libunistring2 libzstd1 libacl1 liblz4-1 libxml2 libicu72)

# MPI, which configs need since they name collectives, and what it loads.
EQT_ARM64_LIBRARIES+=(libopenmpi3 libopenmpi-dev libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7 libudev1 libcap2)

# The releases whose archives have every package, and how to say so.
EQT_RELEASES="bookworm trixie resolute"
EQT_RELEASE_NAMES="Debian 12 or 13, Raspberry Pi OS made of them, or Ubuntu 26.04"
# Other names in Debian 13 and Ubuntu 26.04, RELEASE:NAME in one of them; "-" is not there, and what needs it is skipped
# with a word.
declare -A EQT_OTHER_NAMES=(
  [clang-format-14]=-
  [libhwy1]=libhwy1t64 [libfmt9]=libfmt10 [libutf8proc2]=libutf8proc3 [libzip4]=libzip5 [libarchive13]=libarchive13t64
  [libpng16-16]=libpng16-16t64 [libgnutls30]=libgnutls30t64 [libhogweed6]=libhogweed6t64 [libnettle8]=libnettle8t64
  [libssl3]=libssl3t64 [libunistring2]=libunistring5 [libicu72]=libicu76 [libopenmpi3]=libopenmpi40
  [resolute:libjpeg62-turbo-dev]=libjpeg-turbo8-dev
  [libevent-core-2.1-7]=libevent-core-2.1-7t64 [libevent-pthreads-2.1-7]=libevent-pthreads-2.1-7t64
)

# release_here: prints the code name of this system's release, or nothing.
release_here() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null | tr -d '"'; }

# names_here NAME...: prints what this release calls these packages, a line each.
names_here() {
  local name here
  here=$(release_here)
  for name in "$@"; do
    [[ $here == bookworm ]] || name=${EQT_OTHER_NAMES[$here:$name]:-${EQT_OTHER_NAMES[$name]:-$name}}
    [[ $name == - ]] || printf '%s\n' "$name"
  done
}

# install_packages NAME...: installs those that are missing. EQT_SKIP_INSTALL=1 installs nothing
# (own LibTorch, other distribution, no rights).
install_packages() {
  local missing=() names package
  if [[ ${EQT_SKIP_INSTALL:-0} == 1 ]]; then
    say "Leaving the system's packages alone (EQT_SKIP_INSTALL=1)"
    return
  fi
  command -v apt-get >/dev/null ||
    fail 1 "this system has no apt-get: install what Debian calls \"$*\" with your own package" \
      "manager, then run again with EQT_SKIP_INSTALL=1."
  [[ " $EQT_RELEASES " == *" $(release_here) "* ]] ||
    fail 1 "expected $EQT_RELEASE_NAMES, found $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"')," \
      "whose packages are not known: install what third_party/README.md lists (in Debian: $*), then run again with EQT_SKIP_INSTALL=1."
  mapfile -t names < <(names_here "$@")
  for package in "${names[@]}"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    say "All ${#names[@]} Debian packages are installed"
    return
  fi
  say "Installing ${missing[*]}"
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null || ! { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      fail 1 "installing needs root, and sudo cannot be used here: ask for" \
        "\"apt-get install ${missing[*]}\", then run this again."
    fi
    as_root=(sudo)
  fi
  local log="$EQT_ROOT/build/packages.log" apt
  mkdir -p "$EQT_ROOT/build"
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
  say "(a bare system downloads 0.4 GB and takes 1.5 GB of disk; apt's output goes to build/packages.log)"
  "${apt[@]}" update >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail 1 "apt-get update failed: check the network and /etc/apt/sources.list, then run this again."
  }
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    fail 1 "apt-get could not install ${missing[*]}: its last words stand above, all of them in" \
      "build/packages.log; main of Debian, and main and universe of Ubuntu, have every one of these packages."
  }
}
