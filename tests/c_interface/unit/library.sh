#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libequant_codec.so as a linker sees it: nothing but the functions of equant/codec.h is visible, the
# soname has the version of the interface, and no MPI and no LibTorch is needed.
#
#   library.sh LIBRARY HEADER [NM [READELF]]
set -euo pipefail
library=$1 header=$2 nm=${3:-nm} readelf=${4:-readelf}
failures=0

wrong() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n' "$*"
}

declared=$(grep -oE '\bequant_codec_[a-z_]+\(' "$header" | tr -d '(' | sort -u |
  grep -vxE 'equant_codec_(status|property)')
visible=$("$nm" -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[[ $(wc -l <<<"$declared") -ge 10 ]] || wrong "the header declares only: $declared"
[[ $visible == "$declared" ]] ||
  wrong "declared (<) and visible (>) functions differ: $(diff <(echo "$declared") <(echo "$visible"))"

version=$(awk '/define EQUANT_CODEC_ABI_VERSION/ { print $3 }' "$header")
dynamic=$("$readelf" -d "$library")
soname=$(sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p' <<<"$dynamic")
[[ $soname == "libequant_codec.so.$version" ]] ||
  wrong "expected the soname libequant_codec.so.$version, found $soname"
! grep -q TEXTREL <<<"$dynamic" || wrong "code is changed when the library is loaded"

needed=$(sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p' <<<"$dynamic")
others=$(grep -vE '^(libfmt|libhwy|libxxhash|libstdc\+\+|libgcc_s|libm|libc|ld-linux[-a-z0-9_]*)\.so' <<<"$needed" || true)
[[ -n $needed && -z $others ]] || wrong "libraries of others are linked: $others"
# What those need in turn, where this machine can load it.
if all=$(ldd "$library" 2>/dev/null); then
  names=$(awk '{ print $1 }' <<<"$all")  # without the addresses, which may have any hexadecimal digits
  ! grep -iE 'mpi|torch|c10' <<<"$names" || wrong "MPI or LibTorch is loaded"
fi
[[ $failures -eq 0 ]] || exit 1
echo "all checks hold"
