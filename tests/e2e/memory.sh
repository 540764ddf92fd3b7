#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The estimated memory of a run: never exceeded by more than a tenth, not far too large, and refused
# before the start if the host has less. Files that claim more than they have cause no allocation.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# estimate [ARGUMENTS]: sets ANNOUNCED to the figure of `check` [MiB].
estimate() {
  program check --config "$WORK/tiny.json" "$@"
  expect_code 0 "check $*"
  ANNOUNCED=$(sed -n 's/^memory: about \([0-9]*\) MiB for each of 2 ranks: .*/\1/p' "$ERR")
}

# measure WHAT [ARGUMENTS]: two ranks for two steps, compared with their estimate.
measure() {
  local what=$1 announced peak recorded
  shift
  estimate "$@"
  announced=$ANNOUNCED
  value "$OUT" name >"$WORK/name"
  expect_equal tiny "$(cat "$WORK/name")" "$what: stdout of check is the config alone"
  train 2 "measured" --set train.steps=2 --overwrite "$@"
  expect_code 0 "$what"
  [[ $CODE -eq 0 ]] || return 0
  peak=$(summary peak_rss_mib)
  recorded=$(head -n 1 "$RUN/metrics.jsonl" | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["memory_estimate_bytes"] / 2**20)')
  echo "$what: peak $peak MiB, announced $announced, recorded $recorded"
  for found in "$announced" "$recorded"; do
    expect_number "$peak" "<=" "$(awk -v a="$found" 'BEGIN { print 1.1 * a }')" "$what: peak of a rank"
    expect_number "$found" "<=" "$(awk -v a="$peak" 'BEGIN { print 2 * a }')" "$what: estimate"
  done
}
measure "ResNet-20, dense" --set train.batch_size=64
measure "VGG-11, qsgd" --set model.name=vgg11 --set train.batch_size=64 --set compressor.name=qsgd
measure "ResNet-18, top-k, CHOCO" --set model.name=resnet18 --set data.limit_test=16 \
  --set compressor.name=topk --set synchronization.algorithm=choco-sgd

# A batch that one rank has alone, batches whose gradients are added up, and a copy for the checkpoint.
measure "ResNet-20, uneven batches" --set train.batch_size=4 --set 'train.batch_sizes=[256,4]' --set data.limit_train=1024
measure "ResNet-50, checkpoints, two batches" --set model.name=resnet50 --set train.batch_size=2 --set data.limit_test=16 \
  --set train.accumulate=2 --set checkpoint.every_steps=1 --set compressor.name=qsgd --set compressor.bits=8 \
  --set synchronization.error_feedback=ef14

train 2 refused --set model.name=resnet50 --set train.batch_size=65536
expect_failure 2 'free memory for 2 ranks, [0-9]+ MiB each.*found [0-9]+ MiB' "more memory than there is"
[[ ! -e $RUN/summary.json ]] || wrong "a refused run wrote a summary"

# A gibibyte of zeros in a megabyte of gzip, instead of 47 MB of images.
python3 - "$WORK/bomb" <<'PY'
import gzip, os, sys
os.mkdir(sys.argv[1])
for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
    with gzip.open(f"{sys.argv[1]}/{name}-ubyte.gz", "wb", 1) as file:
        for _ in range(1024 if name.startswith("train-images") else 1):
            file.write(bytes(1 << 20))
PY
estimate --set data.name=fashion-mnist --set data.limit_train=0 --set data.limit_test=0
announced=$ANNOUNCED
python3 - "$EQT_PROGRAM" "$WORK" >"$WORK/bomb.found" 2>"$WORK/bomb.words" <<'PY' || true
import resource, subprocess, sys
program, work = sys.argv[1:]
code = subprocess.run([program, "--config", work + "/tiny.json", "--set", "data.name=fashion-mnist", "--set",
                       f"data.path={work}/bomb", "--out", work + "/bombed"], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
PY
read -r code peak <"$WORK/bomb.found"
expect_equal 3 "$code" "exit code of a decompression bomb"
expect_number "$peak" "<=" "$(awk -v a="$announced" 'BEGIN { print 1.1 * a }')" "peak at a decompression bomb"
finish
