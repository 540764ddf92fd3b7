#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gradients that are encoded in a device's memory, as EQT_MIRROR=codec rehearses it on the processor: runs end with the
# bits of plain ones, also from checkpoints; what a device cannot encode, the host does, and a note says why.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

readonly DEVICE="gradients are encoded on the device" HOST="gradients are encoded on the host: "
encoded() { grep '"type":"note"' "$RUN/metrics.jsonl" | grep -qF -- "$1" || wrong "$RUN: expected a note with \"$1\""; }

# same NOTE RANKS NAME [ARGUMENTS]: a run and the same with the device's codec, which has this note.
same() {
  local note=$1 ranks=$2 name=$3 key
  shift 3
  train "$ranks" "$name" "$@"
  expect_code 0 "$name"
  ! grep -q "gradients are encoded" "$RUN/metrics.jsonl" || wrong "$name: a note on devices without one"
  declare -A found=()
  for key in parameter_hash train_loss test_accuracy sent_bytes; do found[$key]=$(summary "$key"); done
  export EQT_MIRROR=codec
  train "$ranks" "$name-codec" "$@"
  unset EQT_MIRROR
  expect_code 0 "$name with the device's codec"
  [[ $CODE -eq 0 ]] || return 0
  encoded "$note"
  for key in "${!found[@]}"; do
    expect_equal "${found[$key]}" "$(summary "$key")" "$name with the device's codec: $key"
  done
}

# Ten steps: measured in steps 0 and 8, and observed at the end of the epoch.
long=(--set data.limit_train=320 --set train.steps=10)
same "$DEVICE" 2 feedback "${long[@]}" --set compressor.name=elastiquant --set optimizer.clip_norm=0.5
same "$DEVICE" 3 scattered "${long[@]}" --set compressor.name=int8 --set synchronization.collective=scatter-reduce \
  --set synchronization.error_feedback=ef14 --set data.limit_train=480
same "$DEVICE" 2 qsgd --set compressor.name=qsgd --set synchronization.overlap=false
same "$DEVICE" 2 halves --set compressor.name=bf16 --set compressor.granularity=model --set threads_per_rank=2
same "$DEVICE" 2 signs --set compressor.name=signsgd --set optimizer.momentum=0 --set output.dump_gradients=2
for file in "$WORK"/signs/gradients/*; do
  cmp -s "$file" "${file/signs/signs-codec}" || wrong "a gradient that was written differs: $file"
done

same "${HOST}compressor topk has no kernels" 2 topk --set compressor.name=topk
same "${HOST}collective ring takes no messages" 2 ring --set compressor.name=int8 --set synchronization.collective=ring
same "${HOST}what ranks remember" 2 momentum --set compressor.name=signsgd
same "${HOST}train.accumulate" 2 accumulated --set compressor.name=int8 --set train.accumulate=2
same "${HOST}synchronization.algorithm choco-sgd" 2 gossip --set synchronization.algorithm=choco-sgd \
  --set compressor.name=int8
same "${HOST}train.on_divergence" 2 rollback --set compressor.name=int8 --set train.on_divergence=rollback
same "${HOST}this process plays all ranks" 1 simulated --set compressor.name=int8 --simulate 2

# A run goes on from a checkpoint, without a device and back: the residual is part of it.
saves=(--set compressor.name=elastiquant --set train.steps=6 --set checkpoint.every_steps=2 --set checkpoint.keep=9)
same "$DEVICE" 2 saved "${saves[@]}"
hash=$(summary parameter_hash)
for begun in saved saved-codec; do
  rm -rf "$WORK/again"
  cp -r "$WORK/$begun" "$WORK/again"
  rm -rf "$WORK"/again/checkpoints/step-*6 "$WORK"/again/summary.json "$WORK"/again/model.pt
  [[ $begun == saved-codec ]] || export EQT_MIRROR=codec
  train 2 again "${saves[@]}" --resume
  unset EQT_MIRROR
  expect_code 0 "$begun, resumed the other way"
  expect_equal "$hash" "$(summary parameter_hash)" "$begun, resumed the other way"
done

# Values that are not finite end the run with step, rank and tensor.
export EQT_MIRROR=codec
EQT_FAULT=nan:rank=1,step=3 train 2 poisoned --set compressor.name=elastiquant
expect_failure 4 'step 3: .*on rank 1.*conv1.weight holds -?nan at index 0' "a NaN in a step"
unset EQT_MIRROR
finish
