#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers with Clang in build/fuzz (AddressSanitizer, UndefinedBehaviorSanitizer) and
# runs them on all readers of bytes from outside: decoders, config, graph, IDX, CIFAR, pictures and
# archives of them, NumPy arrays, tables, layouts of gradients, weights, archives of TorchScript,
# checkpoints, run folders.
#
#   scripts/fuzz.sh [--runs N] [TARGET...]
#
#   --runs N    inputs for each target [1000000]
#   --quick     as scripts/test.sh runs it: all decoders as one target, a few seconds
#   --list      the targets
#   --help      this text
#
# A target is a decoder's name, "all" (every decoder in turn) or a reader's. An input that breaks
# one stays in build/fuzz/found/TARGET-*. Put it into tests/fuzz/regressions/TARGET/ together with
# the fix; later runs then start from it, too.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

runs=1000000
quick=false
list=false
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --runs) value_of "$1" $#; runs=$2; shift 2 ;;
    --quick) quick=true; shift ;;
    --list) list=true; shift ;;
    --help | -h) usage; exit 0 ;;
    -*) fail 2 "unknown argument \"$1\"; see --help." ;;
    *) targets+=("$1"); shift ;;
  esac
done
[[ $runs =~ ^[1-9][0-9]{0,11}$ ]] || fail 2 "--runs: expected a whole number above 0, found \"$runs\"."
tree=$EQT_ROOT/build/fuzz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof 0)) { return 0; }' >"$work/probe.cpp"
if ! clang++ -fsanitize=fuzzer,address,undefined "$work/probe.cpp" -o "$work/probe" 2>"$work/log"; then
  echo "[eqt-skip] no clang++ that links libFuzzer: install Debian's clang and libclang-rt-dev"
  exit 0
fi

mkdir -p "$tree"
(cd "$EQT_ROOT" && cmake --preset fuzz && cmake --build --preset fuzz --parallel "$(cores)") >"$tree/build.log" 2>&1 || {
  tail -n 30 "$tree/build.log" >&2
  fail 1 "the fuzzers could not be built; all of it is in build/fuzz/build.log."
}
echo "built after $SECONDS s"

mapfile -t decoders < <("$tree/tests/codec_fuzz" --list)
mapfile -t readers < <("$tree/tests/reader_fuzz" --list)
if $list; then printf '%s\n' all "${decoders[@]}" "${readers[@]}"; exit 0; fi
if [[ ${#targets[@]} -eq 0 ]]; then
  targets=("${readers[@]}" "${decoders[@]}")
  if $quick; then targets=("${readers[@]}" all); fi
fi

# attack TARGET: runs it, and prints its output only if it fails.
attack() {
  local target=$1 corpus=$tree/corpus/$1 log=$work/$1.log
  local known=("$corpus") command=() limit=(-runs="$runs")
  if $quick; then limit=(-runs=20000 -max_total_time=5); fi
  mkdir -p "$corpus" "$tree/found"
  if [[ " $reader_names " == *" $target "* ]]; then
    command=("$tree/tests/reader_fuzz" "--reader=$target")
  else
    command=("$tree/tests/codec_fuzz" "--decoder=$target")
    "$tree/tests/codec_fuzz" --seeds "$target" "$corpus"
  fi
  for folder in seeds regressions; do
    [[ ! -d $EQT_ROOT/tests/fuzz/$folder/$target ]] || known+=("$EQT_ROOT/tests/fuzz/$folder/$target")
  done
  # Readers may not allocate much more memory than their input has bytes.
  UBSAN_OPTIONS=print_stacktrace=1 "${command[@]}" "${limit[@]}" -max_len=8192 -timeout=10 \
    -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="$tree/found/$target-" \
    "${known[@]}" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "fuzz.sh: $target broke; the input stands above, under build/fuzz/found" >&2
    return 1
  }
  printf '%-28s %9s inputs, %4s s, coverage %s\n' "$target" \
    "$(awk '/number_of_executed_units/ { print $2 }' "$log")" \
    "$(awk '/^Done .* second/ { print $5 }' "$log")" \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)"
}

reader_names=${readers[*]}
export EQT_ROOT tree work runs quick reader_names
export -f attack
# shellcheck disable=SC2016  # $0 is the inner shell's: the target
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(cores)" bash -c 'attack "$0"' ||
  fail 1 "a target broke; its words stand above."
echo "${#targets[@]} targets held, $SECONDS s"
