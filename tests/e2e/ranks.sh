#!/usr/bin/env bash
# 1, 2, 3 and 4 ranks train, and all replicas are the same afterwards.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for ranks in 1 2 3 4; do
  # 3 ranks: 64 values do not fall into equal chunks anywhere.
  train "$ranks" "ranks$ranks" --set compressor.name=qsgd --set train.steps=3 \
    --set synchronization.collective=scatter-reduce
  expect_code 0 "$ranks ranks"
  [[ $CODE -eq 0 ]] || continue
  expect_equal "$ranks" "$(summary ranks)" "ranks in the summary"
  expect_equal true "$(summary replicas_identical)" "replicas on $ranks ranks"
done
finish
