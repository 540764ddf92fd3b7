#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages for arm64 on another machine, as Debian cross-builds: in a new Debian with
# a cross compiler and, beside its own libraries, those of arm64. An example that uses the library is run
# by qemu.
#
#   packaging/build_for_arm64.sh [options]
#
#   --check      installs the packages in a new Debian for arm64 and trains there with 2 ranks, by qemu
#   --codecs     only libequant-codec1 and libequant-codec-dev, without MPI and LibTorch
#   --out DIR    where the packages go [build/arm64-packages]
#   --root DIR   where the new Debian is made, and kept for the next call [build/arm64-RELEASE]
#   --release NAME  bookworm or trixie [bookworm]
#   --jobs N     compilers at the same time [the number of cores]
#   --help       this text
#
# Needs root, mmdebstrap, qemu-user-static and Debian's archive: 0.6 GB of downloads and 4 GB of disk; 0.2 and 1 with
# --codecs; 0.5 and 2 more with --check.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=packaging/lib.sh
source "$EQT_ROOT/packaging/lib.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"
# shellcheck source=packaging/arm64.sh
source "$EQT_ROOT/packaging/arm64.sh"

codecs=""
check=""
out=$EQT_ROOT/build/arm64-packages
root=""
release=bookworm
jobs=$(cores)
declare -A options=([--check]="flag check" [--codecs]="flag codecs" [--out]="text out" [--root]="text root" [--release]="text release"
  [--jobs]="natural jobs")
read_all_options "$@"
need_release
root=${root:-$EQT_ROOT/build/arm64-$release}
[[ -z $check || -z $codecs ]] || fail 2 "--check trains with the program, which --codecs leaves out: give one of them."
if [[ -n $codecs ]]; then
  need_root_with mmdebstrap
else
  lacking=$(missing_for_arm64)
  [[ -z $lacking ]] || fail 1 "$lacking."
fi

portable=OFF
[[ -z $codecs ]] || portable=ON
make_debian_for_arm64 git
inside 'rm -f /build/*.deb'
build_for_arm64 OFF "$portable" "$jobs" debian_packages

say "Using the library from the packages"
# shellcheck disable=SC2016  # the shell inside expands it
inside 'rm -rf /check; mkdir /check; cd /check
  for deb in /build/libequant-codec*.deb; do dpkg-deb --extract "$deb" .; done
  libraries=usr/lib/aarch64-linux-gnu
  aarch64-linux-gnu-gcc -Iusr/include usr/share/doc/libequant-codec-dev/examples/compress_in_c/compress_in_c.c \
    -L$libraries -lequant_codec -o in_c
  qemu-aarch64-static -E LD_LIBRARY_PATH=$libraries ./in_c' ||
  fail 1 "the example in C did not run with the library of the packages; its words stand above."

mkdir -p "$out"
rm -f "$out"/*_arm64.deb
cp "$root"/build/*_arm64.deb "$out"
for deb in "$out"/*_arm64.deb; do
  say "$(basename "$deb"): $(stat -c %s "$deb") bytes; depends on $(dpkg-deb --field "$deb" Depends)"
done
[[ -n $check ]] || exit 0

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"; forget_arm64_programs' EXIT
root=$work/root
also_mounted=""
make_system --architectures=arm64
mkdir "$root/packages"
cp "$out"/*_arm64.deb "$root/packages"
inside 'apt-get -qq update' || fail 1 "apt-get update failed in the new Debian: check the network."
say "Installing the packages with what they depend on"
install_inside '/packages/*.deb' || fail 1 "the packages could not be installed; apt-get's last words stand above."
inside 'useradd --create-home tester'

# try WHAT COMMAND: runs it there as a user without rights.
# shellcheck disable=SC2016  # the shell inside expands it
try() {
  say "$1"
  inside 'exec timeout 1200 su --login tester --shell /bin/bash --command "set -euo pipefail; $1"' - "$2" ||
    fail 1 "$1: this failed on arm64; its words stand above."
}
# shellcheck disable=SC2016  # likewise
try "The version" 'equant-train --version; test "$(dpkg --print-architecture)" = arm64'
try "The networks" 'equant-train list models | grep "^resnet20 "'
# An emulated process cannot read the memory of another, as Open MPI would on one host.
try "Training: 20 steps on 2 ranks" 'OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma,xpmem,knem mpirun -np 2 --oversubscribe \
  equant-train --config /usr/share/equant-train/configs/quickstart.json --out runs/arm64 --set train.steps=20 \
  --set data.name=synthetic --set data.limit_train=80 --set data.limit_test=4 --set train.batch_size=2'
try "Its results" 'grep "\"replicas_identical\": true" runs/arm64/summary.json; grep "\"parameter_hash\"" runs/arm64/summary.json
  equant-train report runs/arm64 >report.txt; test -s runs/arm64/report/report.html'
say "Built, installed and used on arm64: $SECONDS s"
