#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 1, 2, 3 and 4 ranks train, and all replicas are the same afterwards.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for ranks in 1 2 3 4; do
  # 3 ranks: 64 values cannot be divided into equal chunks.
  train "$ranks" "ranks$ranks" --set compressor.name=qsgd --set train.steps=3 \
    --set synchronization.collective=scatter-reduce
  expect_code 0 "$ranks ranks"
  [[ $CODE -eq 0 ]] || continue
  expect_equal "$ranks" "$(summary ranks)" "ranks in the summary"
  expect_equal true "$(summary replicas_identical)" "replicas on $ranks ranks"
done

train 3 sparse3 --set compressor.name=topk --set train.steps=3 --set synchronization.collective=sparse
expect_code 0 "topk on the sparse collective"
if [[ $CODE -eq 0 ]]; then
  expect_equal sparse "$(summary collective)" "collective in the summary"
  expect_equal true "$(summary replicas_identical)" "replicas of the sparse collective"
fi
finish
