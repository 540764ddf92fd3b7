#!/usr/bin/env bash
# Builds the fuzzer with Clang in build/fuzz and lets it loose on every decoder.
#
#   tests/fuzz/run.sh [SECONDS [DECODER...]]
#
# SECONDS a decoder, 1 by default. An input that breaks one stays in build/fuzz/found/DECODER-*; put
# it into tests/fuzz/regressions/DECODER/ with the mend, and every later run starts from it too.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
seconds=${1:-1}
shift || true
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "run.sh: expected whole seconds, found \"$seconds\"" >&2; exit 2; }
tree=$root/build/fuzz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, decltype(sizeof 0)) { return 0; }' >"$work/probe.cpp"
if ! clang++ -fsanitize=fuzzer,address,undefined "$work/probe.cpp" -o "$work/probe" 2>"$work/log"; then
  echo "[eqt-skip] no clang++ that links libFuzzer: install Debian's clang and libclang-rt-14-dev"
  exit 0
fi

mkdir -p "$tree"
(cd "$root" && cmake --preset fuzz && cmake --build --preset fuzz --parallel "$(nproc)") >"$tree/build.log" 2>&1 || {
  tail -n 30 "$tree/build.log" >&2
  echo "run.sh: the fuzzer could not be built; all of it is in build/fuzz/build.log" >&2
  exit 1
}
echo "built after $SECONDS s"

fuzzer=$tree/tests/codec_fuzz
if [[ $# -gt 0 ]]; then decoders=("$@"); else mapfile -t decoders < <("$fuzzer" --list); fi

# attack DECODER: its own words only when it breaks.
attack() {
  local decoder=$1 corpus=$tree/corpus/$1 log=$work/$1.log
  local known=("$corpus")
  [[ ! -d $root/tests/fuzz/regressions/$decoder ]] || known+=("$root/tests/fuzz/regressions/$decoder")
  mkdir -p "$corpus" "$tree/found"
  "$fuzzer" --seeds "$decoder" "$corpus"
  UBSAN_OPTIONS=print_stacktrace=1 "$fuzzer" "--decoder=$decoder" -max_total_time="$seconds" \
    -max_len=2048 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$tree/found/$decoder-" "${known[@]}" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "run.sh: $decoder broke; the input stands above, under build/fuzz/found" >&2
    return 1
  }
  printf '%-28s %9s inputs, coverage %s\n' "$decoder" \
    "$(awk '/number_of_executed_units/ { print $2 }' "$log")" \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)"
}

export fuzzer tree root work seconds
export -f attack
# shellcheck disable=SC2016  # $0 is the inner shell's: the decoder
printf '%s\0' "${decoders[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'attack "$0"' ||
  { echo "run.sh: a decoder broke; its words stand above" >&2; exit 1; }
echo "${#decoders[@]} decoders held, $SECONDS s"
