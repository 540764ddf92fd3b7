#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the rooms that need no LibTorch for arm64, runs their tests of one process under qemu and
# compares the bytes of its compressors with those of this machine. A second call downloads nothing and
# builds only what has changed.
#
#   scripts/test_arm64.sh [--whole] [-- ctest arguments]
#
#   --whole  the whole program with LibTorch and MPI instead, cross-built in a Debian of its own: tests of one
#            process and of 2 ranks, a training on 2 emulated ranks, and trainings of which one rank runs here
#            and the other is emulated. Needs root, mmdebstrap and 6 GB of disk; says so where they are missing
#   --release NAME  of that Debian: bookworm or trixie [this system's]
#   --help   this text
#
#   scripts/test_arm64.sh -- -R codec_levels
# arm64 libraries are unpacked into build/arm64-root; the system gets a cross compiler and qemu, no
# foreign architecture. EQT_SKIP_INSTALL=1 installs nothing.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
source "$EQT_ROOT/scripts/lib/packages.sh"

whole=""
release=$(release_here)
while [[ $# -gt 0 ]]; do
  case $1 in
    --whole) whole=1; shift ;;
    --release) value_of "$1" $#; release=$2; shift 2 ;;
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    *) fail 2 "unknown argument \"$1\"; see --help." ;;
  esac
done

# train_emulated: 20 steps on 2 ranks inside `root`, where programs for arm64 run by qemu.
train_emulated() {
  say "Training on 2 emulated ranks"
  # An emulated process cannot read the memory of another, as Open MPI would on one host.
  inside 'export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma,xpmem,knem OMPI_MCA_mpi_yield_when_idle=1
    rm -rf /tmp/run
    timeout 900 mpirun -np 2 --oversubscribe /build/equant-train --config /source/configs/quickstart.json \
      --out /tmp/run --set data.name=synthetic --set data.limit_train=80 --set data.limit_test=4 \
      --set train.batch_size=2 --set train.steps=20
    grep "\"parameter_hash\"" /tmp/run/summary.json
    grep "\"replicas_identical\": true" /tmp/run/summary.json' ||
    fail 1 "training on arm64 failed, or its replicas differ; its words stand above."
}

# test_whole CTEST_ARGUMENT...: what --whole says.
test_whole() {
  # shellcheck source=packaging/lib.sh
  source "$EQT_ROOT/packaging/lib.sh"
  # shellcheck source=packaging/arm64.sh
  source "$EQT_ROOT/packaging/arm64.sh"
  local missing status=0 start other=$EQT_ROOT/build/equant-train-arm64
  need_release
  missing=$(missing_for_arm64)
  [[ -z $missing ]] || { echo "[eqt-skip] the whole program for arm64: $missing."; exit 0; }
  root=$EQT_ROOT/build/arm64-$release
  [[ $release != "$(release_here)" ]] || build release equant-train
  # From Debian 13 on catch2 is a name for every architecture of the package that has the library.
  make_debian_for_arm64 git "$([[ $release == bookworm ]] && echo catch2 || echo libcatch2-dev):arm64"
  run_arm64_programs
  build_for_arm64 ON OFF "$(cores)" equant-train equant_codec test_programs

  say "Testing under qemu"
  start=$SECONDS
  # shellcheck disable=SC2016  # the shell inside expands it
  inside 'cd /build && ctest --no-tests=error --output-on-failure --parallel "$1" \
    -L "^(unit|property|golden|mpi)$" -E "[.][3-9]ranks$" "${@:2}"' ctest "$(cores)" "$@" || status=$?
  say "$((SECONDS - start)) s of tests"
  train_emulated

  if [[ $release != "$(release_here)" ]]; then
    say "No training with one rank here: this system's release has another Open MPI than $release"
    [[ $status -eq 0 ]] || fail 1 "tests failed on arm64; ctest's list stands above."
    return
  fi
  say "Training with one rank here and one emulated"
  # Links such as libblas.so.3 lead over /etc/alternatives to this machine's, so their folder is named.
  printf '#!/bin/sh\nexec qemu-aarch64-static -L "%s" -E LD_LIBRARY_PATH="%s" "%s" "$@"\n' "$root" \
    "$root/usr/lib/aarch64-linux-gnu/openblas-pthread" "$root/build/equant-train" >"$other"
  chmod +x "$other"
  EQT_PROGRAM=$EQT_ROOT/build/release/equant-train EQT_OTHER_PROGRAM=$other \
    "$EQT_ROOT/tests/e2e/mixed_processors.sh" || fail 1 "a mixed job failed; its words stand above."
  [[ $status -eq 0 ]] || fail 1 "tests failed on arm64; ctest's list stands above."
}

install_packages "${EQT_BUILD_PACKAGES[@]}" "${EQT_ARM64_PACKAGES[@]}"
if [[ -n $whole ]]; then
  test_whole "$@"
  exit
fi

readonly ROOT=$EQT_ROOT/build/arm64-root
readonly APT=$EQT_ROOT/build/arm64-apt

# private_apt COMMAND...: apt for arm64 with separate lists and status; those of the system do not
# change.
private_apt() {
  "apt-$1" -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$APT/state" \
    -o Dir::State::status="$APT/status" -o Dir::Cache="$APT/cache" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root "${@:2}"
}

# unpack NAME...: unpacks the arm64 packages into ROOT, once.
unpack() {
  local missing=() package
  for package in "$@"; do
    [[ -e $ROOT/.have/$package ]] || missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    say "All $# arm64 packages are in build/arm64-root"
    return
  fi
  command -v apt-get >/dev/null ||
    fail 1 "this system has no apt-get: unpack Debian's arm64 packages \"${missing[*]}\" into" \
      "build/arm64-root and put a file named like each into build/arm64-root/.have."
  say "Downloading for arm64: ${missing[*]}"
  mkdir -p "$ROOT/.have" "$APT/state/lists/partial" "$APT/cache/archives/partial" "$APT/debs"
  : >"$APT/status"
  private_apt get update >"$APT/log" 2>&1 || {
    tail -n 5 "$APT/log" >&2
    fail 1 "apt-get update for arm64 failed: check the network and /etc/apt/sources.list."
  }
  for package in "${missing[@]}"; do
    (cd "$APT/debs" && rm -f "${package}"_*.deb && private_apt get download "$package:arm64") \
      >>"$APT/log" 2>&1 || {
      tail -n 5 "$APT/log" >&2
      fail 1 "apt-get could not download $package for arm64; all of its words are in build/arm64-apt/log."
    }
    dpkg-deb -x "$APT/debs/${package}"_*.deb "$ROOT"
    touch "$ROOT/.have/$package"
  done
}

for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v "$program" >/dev/null ||
    fail 1 "$program was not found: install Debian's ${EQT_ARM64_PACKAGES[*]}."
done
mapfile -t libraries < <(names_here "${EQT_ARM64_LIBRARIES[@]}")
unpack "${libraries[@]}"

build arm64 all
build release codec_bytes
start=$SECONDS
say "Testing in build/arm64 under qemu"
status=0
ctest --test-dir "$EQT_ROOT/build/arm64" --no-tests=error --output-on-failure \
  --parallel "$(cores)" -L '^(unit|property|golden)$' "$@" ||
  status=$?

say "Comparing the bytes of this machine with arm64's"
emulate=(timeout 600 qemu-aarch64-static -L /usr/aarch64-linux-gnu
  -E "LD_LIBRARY_PATH=$ROOT/usr/lib/aarch64-linux-gnu:$ROOT/lib/aarch64-linux-gnu")
"$EQT_ROOT/build/release/tests/codec_bytes" >"$EQT_ROOT/build/codec_bytes.here" ||
  fail 1 "codec_bytes failed on this machine; its words stand above."
"${emulate[@]}" "$EQT_ROOT/build/arm64/tests/codec_bytes" >"$EQT_ROOT/build/codec_bytes.arm64" ||
  fail 1 "codec_bytes failed on arm64; its words stand above."
diff "$EQT_ROOT/build/codec_bytes.here" "$EQT_ROOT/build/codec_bytes.arm64" ||
  fail 1 "compressors write or decode other bits on arm64: the lines above, left this machine's."
say "$(wc -l <"$EQT_ROOT/build/codec_bytes.here") compressors write equal bytes; $((SECONDS - start)) s of tests"
[[ $status -eq 0 ]] || fail 1 "tests failed on arm64; ctest's list stands above."
