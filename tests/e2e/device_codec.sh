#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gradients that are encoded in a device's memory, as EQT_MIRROR=codec rehearses it on the processor: runs end with the
# bits of plain ones, also from checkpoints; what a device cannot encode, the host does, and a note says why.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$EQT_ROOT/tests/e2e/mirrored.sh" codec

readonly HOST="gradients are encoded on the host: "

# encoded_same RANKS NAME [ARGUMENTS]: a run and the same with the device's codec.
encoded_same() {
  same "$@"
  ! grep -q "gradients are encoded" "$WORK/$2/metrics.jsonl" || wrong "$2: a note on devices without one"
  [[ $CODE -ne 0 ]] || note_of "gradients are encoded on the device"
}

# Ten steps: measured in steps 0 and 8, and observed at the end of the epoch.
long=(--set data.limit_train=320 --set train.steps=10)
encoded_same 2 feedback "${long[@]}" --set compressor.name=elastiquant --set optimizer.clip_norm=0.5
encoded_same 3 scattered "${long[@]}" --set compressor.name=int8 --set synchronization.collective=scatter-reduce \
  --set synchronization.error_feedback=ef14 --set data.limit_train=480
encoded_same 2 qsgd --set compressor.name=qsgd --set synchronization.overlap=false
encoded_same 2 halves --set compressor.name=bf16 --set compressor.granularity=model --set threads_per_rank=2
encoded_same 2 signs --set compressor.name=signsgd --set optimizer.momentum=0 --set output.dump_gradients=2
for file in "$WORK"/signs/gradients/*; do
  cmp -s "$file" "${file/signs/signs-codec}" || wrong "a gradient that was written differs: $file"
done

# by_host REASON RANKS NAME [ARGUMENTS]: what a device cannot encode.
by_host() {
  local reason=$1 ranks=$2 name=$3
  shift 3
  EQT_MIRROR=codec train "$ranks" "$name" --set train.steps=2 "$@"
  expect_code 0 "$name"
  [[ $CODE -ne 0 ]] || note_of "$HOST$reason"
}
int8=(--set compressor.name=int8)
by_host "compressor topk has no kernels" 2 topk --set compressor.name=topk
by_host "collective ring takes no messages" 2 ring "${int8[@]}" --set synchronization.collective=ring
by_host "what ranks remember" 2 momentum --set compressor.name=signsgd
by_host "train.accumulate" 2 accumulated "${int8[@]}" --set train.accumulate=2
by_host "the gradients of ranks have weights" 2 weighted "${int8[@]}" --set "train.batch_sizes=[8,24]"
by_host "synchronization.algorithm choco-sgd" 2 gossip "${int8[@]}" --set synchronization.algorithm=choco-sgd
by_host "synchronization.algorithm local-sgd" 2 local "${int8[@]}" --set synchronization.algorithm=local-sgd \
  --set synchronization.local_steps=2
by_host "train.on_divergence" 2 rollback "${int8[@]}" --set train.on_divergence=rollback
by_host "this process plays all ranks" 1 simulated "${int8[@]}" --simulate 2

# A run goes on from a checkpoint, without a device and back: the residual is part of it.
saves=(--set compressor.name=elastiquant --set train.steps=6 --set checkpoint.every_steps=2 --set checkpoint.keep=9)
encoded_same 2 saved "${saves[@]}"
resume_both_ways saved "${saves[@]}"

# Values that are not finite end the run with step, rank and tensor.
export EQT_MIRROR=codec
EQT_FAULT=nan:rank=1,step=3 train 2 poisoned --set compressor.name=elastiquant
expect_failure 4 'step 3: .*on rank 1.*conv1.weight holds -?nan at index 0' "a NaN in a step"
unset EQT_MIRROR
finish
