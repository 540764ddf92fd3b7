#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Seconds per step of PyTorch's DistributedDataParallel behind slow links, every rank on a host of its own
# (scripts/netlab.sh): without a hook, with those of PyTorch, and with equant.DDPHook of python/.
#
#   tests/bench/ddp_hook.sh [options]
#
#   --model NAME     resnet18 (11 million parameters) or resnet20 [resnet18]
#   --batch N        images a rank and step [16]
#   --ranks N        [2]
#   --rate RATE      of the links, as for netlab.sh, or unlimited [100mbit]
#   --hooks LIST     comma-separated: none, fp16, bf16, powersgd, alone (each rank keeps its own gradient: a lower
#                    bound), or a compressor, which ":always" follows if DDPHook shall not choose
#                    [none,fp16,powersgd,e-elastiquant]
#   --buckets N      of equal size, instead of those that DDP takes by default
#   --steps S        measured steps of a run, after 2 that are not, or 8 in which DDPHook measures [4]
#   --rounds R       every hook is measured R times, in turns [1]
#   --help           this text
#
# A figure is the median of rank 0's steps. Images are drawn; one thread computes per rank. With powersgd DDP has one
# bucket: its callbacks would wait for each other in Gloo's threads. Gloo of PyTorch 1.13 has no bf16.
# EQUANT_CODEC_LIBRARY names the library if it is not in build/release; PYTHON replaces /usr/bin/python3.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

model=resnet18
batch=16
ranks=2
rate=100mbit
hooks=none,fp16,powersgd,e-elastiquant
steps=4
buckets=0
rounds=1
declare -A options=(
  [--model]="text model" [--batch]="natural batch" [--ranks]="natural ranks" [--rate]="text rate"
  [--hooks]="text hooks" [--buckets]="natural buckets" [--steps]="natural steps" [--rounds]="natural rounds"
)
read_all_options "$@"
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || { echo "[eqt-skip] python3-torch is not installed"; exit 0; }
"$EQT_ROOT/scripts/netlab.sh" --check >/dev/null 2>&1 || { echo "[eqt-skip] no network namespaces here"; exit 0; }
export EQUANT_CODEC_LIBRARY=${EQUANT_CODEC_LIBRARY:-$EQT_ROOT/build/release/libequant_codec.so}
[[ -e $EQUANT_CODEC_LIBRARY ]] ||
  fail 2 "expected the library at $EQUANT_CODEC_LIBRARY: build it (cmake --build build/release --target equant_codec)."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for ((round = 1; round <= rounds; ++round)); do
  for hook in ${hooks//,/ }; do
    case $hook in
      none | alone | fp16 | bf16 | *:always) more=(--warmup 2 --buckets "$buckets") ;;
      powersgd) more=(--warmup 3 --buckets 1) ;;
      *) more=(--warmup 8 --buckets "$buckets") ;;
    esac
    OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 "$EQT_ROOT/scripts/netlab.sh" --no-mpi --ranks "$ranks" --rate "$rate" \
      -- "$python" "$EQT_ROOT/tests/bench/ddp_baseline.py" --model "$model" --batch "$batch" --ranks "$ranks" \
      "${more[@]}" --steps "$steps" --channels-last --join --hook "${hook/#none/}" >"$work/out" 2>"$work/log" || {
      tail -n 5 "$work/log" >&2
      fail 1 "training with the hook \"$hook\" failed; its last words stand above."
    }
    grep '^equant: ' "$work/log" || true  # what DDPHook chose
    grep '^{' "$work/out" | sed "s/^/$hook /" >>"$work/steps"
  done
done

echo "$model, batch $batch, $ranks ranks, rate of links: $rate, $((steps * rounds)) steps"
"$python" - "$work/steps" <<'PYTHON'
import json, statistics, sys
seconds = {}
for line in open(sys.argv[1]):
    hook, record = line.split(" ", 1)
    seconds.setdefault(hook, []).extend(json.loads(record)["step_seconds"])
medians = {hook: statistics.median(steps) for hook, steps in seconds.items()}
best = min(medians.values())
for hook, median in medians.items():
    print(f"{hook:20} {median:8.3f} s per step, {max(medians.values()) / median:5.2f} times as fast as the slowest, "
          f"{median / best:5.2f} times as long as the fastest")
PYTHON
