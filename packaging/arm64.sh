# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that build the program for arm64 on another machine, as Debian cross-builds: in a
# Debian of `release` with a cross compiler and, beside its own libraries, those of arm64. Source it after
# packaging/lib.sh and scripts/lib/packages.sh; `root` names that Debian's folder.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034  # root is set by the script; also_mounted is read by inside

readonly BINFMT=/proc/sys/fs/binfmt_misc

# missing_for_arm64: prints the first thing that this machine lacks; nothing if it has all.
missing_for_arm64() {
  if [[ $(id -u) -ne 0 ]]; then
    echo "a new root needs the rights of root: start this with sudo"
  elif ! command -v mmdebstrap >/dev/null; then
    echo "mmdebstrap was not found: install Debian's mmdebstrap"
  elif [[ $(uname -m) != aarch64 && ! -e /usr/lib/binfmt.d/qemu-aarch64.conf && ! -e $BINFMT/qemu-aarch64 ]]; then
    echo "no qemu runs programs for arm64: install Debian's qemu-user-static"
  elif [[ $(uname -m) != aarch64 && ! -d $BINFMT ]]; then
    echo "this kernel has no binfmt_misc, by which qemu runs programs for arm64: load it with \"modprobe binfmt_misc\""
  fi
}

registered=""
# run_arm64_programs: from here on the kernel runs programs for arm64 by qemu. Debian's package of qemu does
# this when the machine starts; where it has not, it holds until this script ends.
run_arm64_programs() {
  [[ $(uname -m) != aarch64 && ! -e $BINFMT/qemu-aarch64 ]] || return 0
  [[ -e $BINFMT/register ]] || mount -t binfmt_misc none "$BINFMT" ||
    fail 1 "binfmt_misc could not be mounted at $BINFMT; few containers are allowed to: use the machine itself."
  say "Telling the kernel to run programs for arm64 by qemu, until this ends"
  cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$BINFMT/register" ||
    fail 1 "the kernel did not accept qemu for programs of arm64: try \"systemctl restart systemd-binfmt\"."
  registered=1
  trap forget_arm64_programs EXIT
}

# forget_arm64_programs: undoes it.
forget_arm64_programs() { [[ -z $registered || ! -e $BINFMT/qemu-aarch64 ]] || echo -1 >"$BINFMT/qemu-aarch64"; }

# make_debian_for_arm64 PACKAGE...: makes the Debian if it is not there, with all that building for arm64 needs
# and these packages; git is for the version's revision. `codecs` is 1 to leave out MPI and LibTorch.
make_debian_for_arm64() {
  # file, dpkg-dev: what cpack calls. The cross compiler's parts are named with this machine's architecture: on
  # Debian 13 apt would take those that run on arm64.
  local gcc=14 package native
  [[ $release != bookworm ]] || gcc=12
  native=$(dpkg --print-architecture)
  local wanted=(cmake ninja-build g++-aarch64-linux-gnu "g++-$gcc-aarch64-linux-gnu:$native"
    "gcc-$gcc-aarch64-linux-gnu:$native" "binutils-aarch64-linux-gnu:$native" pkg-config dpkg-dev file
    qemu-user-static "libstdc++-$gcc-dev:arm64" "$@")
  for package in "${EQT_BUILD_PACKAGES[@]}"; do
    case $package in
      g++ | cmake | ninja-build | pkg-config | catch2) ;;
      nlohmann-json3-dev | libeigen3-dev | libcli11-dev) wanted+=("$package") ;;  # headers for every architecture
      libtorch-dev | libopenblas* | *openmpi*) [[ -n ${codecs:-} ]] || wanted+=("$package:arm64") ;;
      *) wanted+=("$package:arm64") ;;
    esac
  done
  if [[ ! -e $root ]]; then
    rm -rf --one-file-system "$root.part"
    root=$root.part make_system --architectures=amd64,arm64
    mv "$root.part" "$root"
    inside 'apt-get -qq update'
  fi
  # LibTorch's package brings a Python for arm64, which configures itself by running.
  [[ -n ${codecs:-} ]] || run_arm64_programs
  say "Installing a cross compiler and libraries for arm64"
  install_inside "${wanted[@]}" ||
    fail 1 "apt-get could not install what building for arm64 needs; its last words stand above."
}

# build_for_arm64 TESTS PORTABLE JOBS TARGET...: builds the sources in the Debian's /build. TESTS: with (ON) or
# without (OFF) the tests; PORTABLE: only what needs no MPI and LibTorch.
build_for_arm64() {
  also_mounted=$EQT_ROOT
  say "Building $(echo "${@:4}" | tr ' ' ',') for arm64"
  # Packages' own tools ask dpkg which architecture they work for.
  # shellcheck disable=SC2016  # the shell inside expands it
  inside 'export DEB_HOST_ARCH=arm64 EQT_ARM64_FROM_SYSTEM=1
    git config --global --get-all safe.directory >/dev/null || git config --global --add safe.directory "*"
    cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DEQT_TESTS="$1" \
      -DCMAKE_TOOLCHAIN_FILE=/source/tests/cmake/arm64.cmake -DEQT_ONLY_PORTABLE="$2" >/build.configure.log 2>&1 ||
      { tail -n 30 /build.configure.log >&2; exit 1; }
    cmake --build /build --parallel "$3" --target "${@:4}"' build "$@" ||
    fail 1 "the build for arm64 failed; the first error stands above."
}
