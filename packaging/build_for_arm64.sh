#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages for arm64 on another machine, as Debian cross-builds: in a new Debian 12 with
# a cross compiler and, beside its own libraries, those of arm64. An example that uses the library is run
# by qemu.
#
#   packaging/build_for_arm64.sh [options]
#
#   --codecs     only libequant-codec1 and libequant-codec-dev, without MPI and LibTorch
#   --out DIR    where the packages go [build/arm64-packages]
#   --root DIR   where the new Debian is made, and kept for the next call [build/arm64-debian]
#   --jobs N     compilers at the same time [the number of cores]
#   --help       this text
#
# Needs root, mmdebstrap and Debian's archive: 0.5 GB of downloads and 3 GB of disk, 0.2 and 1 with --codecs.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=packaging/lib.sh
source "$EQT_ROOT/packaging/lib.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

codecs=""
out=$EQT_ROOT/build/arm64-packages
root=$EQT_ROOT/build/arm64-debian
jobs=$(cores)
declare -A options=([--codecs]="flag codecs" [--out]="text out" [--root]="text root" [--jobs]="natural jobs")
read_all_options "$@"
need_root_with mmdebstrap

# file, dpkg-dev: what cpack calls. git: the version's revision.
wanted=(cmake ninja-build g++-aarch64-linux-gnu pkg-config dpkg-dev file git qemu-user-static libstdc++-12-dev:arm64)
for package in "${EQT_BUILD_PACKAGES[@]}"; do
  case $package in
    g++ | cmake | ninja-build | pkg-config | catch2) ;;
    nlohmann-json3-dev | libeigen3-dev | libcli11-dev) wanted+=("$package") ;;  # headers for every architecture
    libtorch-dev | libopenblas* | *openmpi*) [[ -n $codecs ]] || wanted+=("$package:arm64") ;;
    *) wanted+=("$package:arm64") ;;
  esac
done
portable=OFF
[[ -z $codecs ]] || portable=ON

if [[ ! -e $root ]]; then
  say "Making a Debian 12 in $root"
  mmdebstrap --quiet --mode=root --variant=apt --architectures=amd64,arm64 bookworm "$root.part"
  mv "$root.part" "$root"
  inside 'apt-get -qq update'
fi
say "Installing a cross compiler and libraries for arm64"
install_inside "${wanted[@]}"

say "Building"
also_mounted=$EQT_ROOT
# Packages' own tools ask dpkg which architecture they work for.
# shellcheck disable=SC2016  # the shell inside expands it
inside 'export DEB_HOST_ARCH=arm64 EQT_ARM64_FROM_SYSTEM=1
  git config --global --get-all safe.directory >/dev/null || git config --global --add safe.directory "*"
  cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DEQT_TESTS=OFF \
    -DCMAKE_TOOLCHAIN_FILE=/source/tests/cmake/arm64.cmake -DEQT_ONLY_PORTABLE="$2" >/build.configure.log 2>&1 ||
    { tail -n 30 /build.configure.log >&2; exit 1; }
  rm -f /build/*.deb
  cmake --build /build --parallel "$1" --target debian_packages' build "$jobs" "$portable"

say "Using the library from the packages"
# shellcheck disable=SC2016  # likewise
inside 'rm -rf /check; mkdir /check; cd /check
  for deb in /build/libequant-codec*.deb; do dpkg-deb --extract "$deb" .; done
  libraries=usr/lib/aarch64-linux-gnu
  aarch64-linux-gnu-gcc -Iusr/include usr/share/doc/libequant-codec-dev/examples/compress_in_c/compress_in_c.c \
    -L$libraries -lequant_codec -o in_c
  qemu-aarch64-static -E LD_LIBRARY_PATH=$libraries ./in_c
  if [[ -e /build/equant-train ]]; then qemu-aarch64-static /build/equant-train --version; fi'

mkdir -p "$out"
rm -f "$out"/*_arm64.deb
cp "$root"/build/*_arm64.deb "$out"
for deb in "$out"/*_arm64.deb; do
  say "$(basename "$deb"): $(stat -c %s "$deb") bytes; depends on $(dpkg-deb --field "$deb" Depends)"
done
