#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds the rooms that need no LibTorch for arm64, runs their tests of one process under qemu and
# compares the bytes of its compressors with those of this machine. A second call downloads nothing and
# builds only what has changed.
#
#   scripts/test_arm64.sh [-- ctest arguments]
#
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

while [[ $# -gt 0 ]]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --) shift; break ;;
    *) fail 2 "unknown argument \"$1\"; see --help." ;;
  esac
done

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

install_packages "${EQT_BUILD_PACKAGES[@]}" "${EQT_ARM64_PACKAGES[@]}"
for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v "$program" >/dev/null ||
    fail 1 "$program was not found: install Debian's ${EQT_ARM64_PACKAGES[*]}."
done
unpack "${EQT_ARM64_LIBRARIES[@]}"

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
