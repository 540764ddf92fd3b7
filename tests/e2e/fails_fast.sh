#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One rank fails, stalls or diverges; all stop within 10 seconds with one sentence that names it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# fault SPECIFICATION [ARGUMENTS]: a run on 3 ranks with a fault injected.
fault() {
  export EQT_FAULT=$1
  rm -rf "$WORK/fault"
  train 3 fault --set train.steps=50 "${@:2}"
  unset EQT_FAULT
  expect_within 10 "$1"
  [[ ! -e $RUN/summary.json ]] || wrong "$1: a failed run wrote a summary"
}

fault throw:rank=1,step=3
expect_failure 70 'rank 1' "an exception on rank 1"
expect_text 'step 3' "an exception on rank 1"

fault nan:rank=1,step=3
expect_failure 4 'rank 1' "a NaN gradient on rank 1"
expect_text 'step 3' "a NaN gradient on rank 1"

# Every rank that waits reports it, so there may be more than one line.
fault stall:rank=1,step=3 --set synchronization.timeout_seconds=2 --set synchronization.overlap=false
expect_code 7 "rank 1 stalls"
expect_text 'dense|allgather|scatter' "the sentence about a stall names the collective"

fault stall:rank=1,step=3 --set synchronization.timeout_seconds=2 --set compressor.name=qsgd
expect_code 7 "rank 1 stalls while gradients are sent in the background"
expect_text 'dense|allgather|scatter' "the sentence about a background stall"

# A real divergence: after the first update the parameters overflow.
train 2 diverged --set optimizer.learning_rate=1e30 --set train.steps=20
expect_code 4 "a learning rate of 1e30"
expect_text 'step [0-9]+' "the sentence about divergence"
expect_text 'rank [0-9]+' "the sentence about divergence"
expect_within 10 "a learning rate of 1e30"

# Without the fault the same command ends well.
train 3 healthy --set train.steps=4
expect_code 0 "no fault"
finish
