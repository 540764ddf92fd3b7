#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# EQT_LINK: messages come later, results stay the same, and every record and reader is told.
# CTest gives it the program without LibTorch, which starts faster: ranks here compute nothing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

boards=(--set train.steps=6 --set train.emulate_compute=0.01 --set synchronization.bucket_mib=0.25)

# held NAME ARGUMENTS: with and without a delay: the same parameters.
held() {
  local name=$1 plain
  shift
  train 3 "$name" "${boards[@]}" "$@"
  expect_code 0 "$name"
  plain=$(summary parameter_hash)
  expect_equal absent "$(value <(head -n 1 "$RUN/metrics.jsonl") emulated_link)" "$name: no delay"
  EQT_LINK=latency_ms=40,jitter_ms=30,seed=2 train 3 "$name-held" "${boards[@]}" "$@"
  expect_code 0 "$name, held"
  expect_equal "$plain" "$(summary parameter_hash)" "$name: parameters"
  expect_equal "latency_ms=40,jitter_ms=30,seed=2" \
    "$(value <(head -n 1 "$RUN/metrics.jsonl") emulated_link)" "$name: the run record"
  grep -q '"note".*EQT_LINK' "$RUN/metrics.jsonl" || grep -q 'EQT_LINK.*"note"' "$RUN/metrics.jsonl" ||
    wrong "$name: no note says that messages were held"
}

held dense --set synchronization.collective=dense
# Two rounds in each of six steps.
expect_number "$(summary wall_seconds)" ">=" 0.48 "dense: 12 rounds of 0.04 s"
held allgather --set compressor.name=elastiquant --set synchronization.overlap=false
expect_number "$(summary wall_seconds)" ">=" 0.24 "allgather: 6 rounds of 0.04 s"
held gossip --set synchronization.algorithm=choco-sgd --set compressor.name=topk
held delayed --set synchronization.algorithm=local-sgd --set synchronization.local_steps=2 \
  --set synchronization.delay=2

# Which step meets which average depends on timing, so the hash is another one.
EQT_LINK=latency_ms=20 train 4 pairs "${boards[@]}" --set synchronization.algorithm=ad-psgd
expect_code 0 "asynchronous gossip"

# Of one rank only.
EQT_LINK=latency_ms=100,rank=1 train 3 one "${boards[@]}" --set synchronization.collective=dense
expect_code 0 "the messages of one rank"
expect_number "$(summary wall_seconds)" ">=" 0.6 "six steps of 0.1 s"

for bad in "" fast latency_ms=-1 latency_ms=10,rank=3; do
  EQT_LINK=$bad train 3 bad "${boards[@]}"
  expect_failure 2 'EQT_LINK' "EQT_LINK=\"$bad\""
done
EQT_LINK=latency_ms=10 program --config "$WORK/tiny.json" --out "$WORK/simulated" --simulate 2
expect_failure 2 'EQT_LINK.*--simulate' "a simulation"
# shellcheck disable=SC2016  # the ranks expand it
run mpirun --oversubscribe -np 2 sh -c \
  'EQT_LINK=latency_ms=$((10 + OMPI_COMM_WORLD_RANK)) exec "$EQT_PROGRAM" "$@"' sh \
  --config "$WORK/tiny.json" --out "$WORK/unequal" "${boards[@]}"
expect_code 2 "ranks with unequal EQT_LINK"
expect_text 'EQT_LINK latency_ms=11 instead of latency_ms=10' "ranks with unequal EQT_LINK"
finish
