#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Accuracy of a run that continues from 4 ranks on 2 and then on 3, compared with runs that keep 4
# or 3.
#
#   tests/bench/rank_counts.sh [SEEDS [EPOCHS [FIRST]]]     3 seeds from 1 on; 2 epochs of each number of ranks
#
# ResNet-20 with top-k and error feedback on a part of Fashion-MNIST; every arm has the same epochs.
# Prints a line per run, then each arm's mean and standard deviation.
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
RUN_LIMIT=3600
part=${2:-2} first=${3:-1}
last=$((first + ${1:-3} - 1))
keys=(--set data.name=fashion-mnist --set data.augment=true --set data.limit_train=6000 --set data.limit_test=2000
  --set train.steps=0 --set compressor.name=topk --set compressor.density=0.01 --set checkpoint.every_epochs=1
  --set "train.evaluate_every=$part" --set data.path=null)

# go ARM RANKS EPOCHS SEED ARGUMENTS
go() {
  local arm=$1 ranks=$2 epochs=$3 seed=$4
  shift 4
  # The global batch is the same, so that all arms take the same steps.
  train "$ranks" "$arm-$seed" "${keys[@]}" --set "seed=$seed" --set "train.epochs=$epochs" \
    --set "train.batch_size=$((48 / ranks))" "$@"
  expect_code 0 "$arm, seed $seed"
}

for ((seed = first; seed <= last; ++seed)); do
  go changing 4 "$part" "$seed"
  go changing 2 "$((2 * part))" "$seed" --resume
  go changing 3 "$((3 * part))" "$seed" --resume
  go four 4 "$((3 * part))" "$seed"
  go three 3 "$((3 * part))" "$seed"
  for arm in changing four three; do
    echo "seed $seed, $arm: accuracy $(value "$WORK/$arm-$seed/summary.json" test_accuracy), loss" \
      "$(value "$WORK/$arm-$seed/summary.json" train_loss), steps $(value "$WORK/$arm-$seed/summary.json" steps)"
  done
done
python3 - "$WORK" "$first" "$last" <<'PY'
import json, statistics, sys
for arm in "changing", "four", "three":
    found = [json.load(open(f"{sys.argv[1]}/{arm}-{s}/summary.json"))["test_accuracy"] for s in range(int(sys.argv[2]), int(sys.argv[3]) + 1)]
    print(f"{arm}: {statistics.mean(found):.4f} +- {statistics.stdev(found) if len(found) > 1 else 0:.4f}")
PY
finish
