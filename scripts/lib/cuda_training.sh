# SPDX-License-Identifier: Apache-2.0
# The part of test_cuda.sh that trains: builds the program with a LibTorch for CUDA and runs it on the device. Source
# it after common.sh.
# shellcheck shell=bash

TRAINING_BUILD=build/cuda-train
TRAINING_PROGRAM=$TRAINING_BUILD/equant-train

# python_torch: the folder of Python's torch, if that is built for CUDA.
python_torch() {
  python3 -c 'import os, torch; assert torch.version.cuda; print(os.path.dirname(torch.__file__))' 2>/dev/null || true
}

# build_training TORCH DEPS ARCHITECTURES JOBS: 1 if it could not; the reason is in build/cuda-train.log.
build_training() {
  local prefix=$1 architectures=$3
  [[ -z $2 ]] || prefix="$prefix;$2/usr"
  cmake --preset release -B "$TRAINING_BUILD" -DEQT_TESTS=OFF -DEQT_CUDA=ON "-DCMAKE_PREFIX_PATH=$prefix" \
    "-DCMAKE_CUDA_ARCHITECTURES=${architectures// /;}" >build/cuda-train.log 2>&1 || return 1
  grep -q "Training on NVIDIA devices is on" build/cuda-train.log || return 1
  cmake --build "$TRAINING_BUILD" --target equant-train -j "$4" >>build/cuda-train.log 2>&1
}

# on_device RANKS NAME ARGUMENTS: a run; its exit code is in CODE, its folder in RUN, its words in $RUN.log.
on_device() {
  local ranks=$1
  RUN=runs/test-cuda/$2 CODE=0
  shift 2
  scripts/run_local.sh --ranks "$ranks" --timeout 120 --program "$TRAINING_PROGRAM" configs/device.json \
    --out "$RUN" --overwrite "$@" >"$RUN.log" 2>&1 || CODE=$?
}

summary_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1/summary.json" "$2"; }

# holds WHAT COMMAND...: prints whether the command succeeds, and counts those that do not.
holds() {
  local what=$1
  shift
  if "$@"; then printf 'holds     %s\n' "$what"; else printf 'FAILED    %s (%s.log)\n' "$what" "$RUN"; WRONG=$((WRONG + 1)); fi
}
trained() { [[ $CODE -eq 0 ]]; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (0.01 * a) ^ 2) }'; }

# encodes_alike ARGUMENTS: does a run on 2 ranks end with the same parameters where the host encodes gradients?
encodes_alike() {
  local hash
  on_device 2 codec-device "$@"
  trained && grep -q "gradients are encoded on the device" "$RUN/metrics.jsonl" || return 1
  hash=$(summary_of "$RUN" parameter_hash)
  EQT_MIRROR=values on_device 2 codec-host "$@"
  trained && [[ $hash = "$(summary_of "$RUN" parameter_hash)" ]]
}

# check_training: laws of a run on a device. WRONG is how many do not hold.
check_training() {
  local hash loss
  WRONG=0
  on_device 2 allreduce --set compressor.name=elastiquant
  holds "2 ranks train with elastiquant" trained
  trained || return 0
  holds "they share the device and say so" grep -q "2 ranks share one" "$RUN/metrics.jsonl"
  holds "their replicas are identical" [ "$(summary_of "$RUN" replicas_identical)" = True ]
  holds "gradients are encoded on the device" grep -q "gradients are encoded on the device" "$RUN/metrics.jsonl"
  hash=$(summary_of "$RUN" parameter_hash)
  on_device 2 again --set compressor.name=elastiquant
  holds "the same run ends with the same parameters" [ "$hash" = "$(summary_of "$RUN" parameter_hash)" ]
  on_device 2 killed --set compressor.name=elastiquant --set train.steps=20 --set checkpoint.every_steps=20
  CODE=0
  scripts/run_local.sh --ranks 2 --timeout 120 --program "$TRAINING_PROGRAM" configs/device.json --out "$RUN" --resume \
    --set compressor.name=elastiquant --set checkpoint.every_steps=20 --set train.steps=40 >"$RUN.log" 2>&1 || CODE=$?
  holds "a run that is continued from a checkpoint, too" [ "$hash" = "$(summary_of "$RUN" parameter_hash)" ]
  holds "elastiquant encodes as on the host" encodes_alike --set=compressor.name=elastiquant
  holds "qsgd, scatter-reduce, encodes as on the host" encodes_alike --set=compressor.name=qsgd \
    --set=synchronization.collective=scatter-reduce
  holds "int8, scatter-reduce, with feedback, encodes as on the host" encodes_alike --set=compressor.name=int8 \
    --set=synchronization.collective=scatter-reduce --set=synchronization.error_feedback=ef14
  holds "bf16 without overlap encodes as on the host" encodes_alike --set=compressor.name=bf16 \
    --set=synchronization.overlap=false
  on_device 2 gossip --set synchronization.algorithm=choco-sgd --set compressor.name=topk
  holds "2 ranks train by gossip" trained
  on_device 1 short --set train.steps=5
  loss=$(summary_of "$RUN" train_loss)
  EQT_MIRROR=layers on_device 1 processor --set train.steps=5 --set device=cpu
  holds "5 steps have the processor's loss, to 1 %" near "$(summary_of "$RUN" train_loss)" "$loss"
  on_device 1 memory --set model.name=resnet18 --set train.batch_size=65536 --set train.steps=1 --set data.limit_train=65536
  holds "a batch beyond the device's memory ends with exit code 2" [ "$CODE" -eq 2 ]
  holds "and a sentence" grep -q "expected more free memory on the NVIDIA device" "$RUN.log"
}

# measure_training: images/s as a Markdown table.
measure_training() {
  local model batch row
  printf '\n| network, batch, 1 rank | device images/s | processor images/s |\n|---|---|---|\n'
  for row in "resnet20 128" "resnet18 128" "resnet18 512"; do
    read -r model batch <<<"$row"
    on_device 1 "$model-$batch" --set "model.name=$model" --set "train.batch_size=$batch" --set train.steps=60 \
      --set data.limit_train=16384
    local device="failed" processor="failed"
    trained && device=$(summary_of "$RUN" images_per_second)
    on_device 1 "$model-$batch-cpu" --set device=cpu --set "model.name=$model" --set "train.batch_size=$batch" \
      --set train.steps=5 --set data.limit_train=16384
    trained && processor=$(summary_of "$RUN" images_per_second)
    printf '| %s, %s | %.0f | %.0f |\n' "$model" "$batch" "$device" "$processor" 2>/dev/null ||
      printf '| %s, %s | %s | %s |\n' "$model" "$batch" "$device" "$processor"
  done
  printf '\n| network, batch 128, elastiquant, 2 ranks | encoded on the device images/s | on the host images/s |\n|---|---|---|\n'
  for model in resnet20 resnet18; do
    local rates=() where
    for where in codec values; do
      EQT_MIRROR=$where on_device 2 "$model-$where" --set "model.name=$model" --set train.batch_size=128 \
        --set compressor.name=elastiquant --set train.steps=60 --set data.limit_train=16384
      trained && rates+=("$(summary_of "$RUN" images_per_second)") || rates+=(failed)
    done
    printf '| %s | %s | %s |\n' "$model" "${rates[@]}"
  done
}
