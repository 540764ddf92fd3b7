#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Pictures from folders and archives train like the same pictures from a set's own files; folders that
# are wrong end every rank with one sentence.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mnist=/usr/share/datasets/fashion-mnist
[[ -r $mnist/train-images-idx3-ubyte.gz ]] || skip "dataset-fashion-mnist is not installed"
"$EQT_ROOT/tests/e2e/pictures.py" "$mnist" "$WORK" 16 5 || wrong "the pictures could not be written"

common=(--set data.augment=true --set data.limit_train=160 --set data.limit_test=50 --set train.steps=4
  --set train.batch_size=8 --set train.epochs=2)
# Fashion-MNIST's own mean and deviation; without a change of size, the pixels are those of the files.
own=("${common[@]}" --set data.image_size=28 --set data.channels=1 --set "data.mean=[0.2860]"
  --set "data.deviation=[0.3530]")
folder=("${own[@]}" --set data.name=folder --set "data.path=$WORK/png")

train 2 idx "${common[@]}" --set data.name=fashion-mnist --set "data.path=$WORK/idx"
expect_code 0 "IDX files"
hash=$(summary parameter_hash) accuracy=$(summary test_accuracy)

# same WHAT: the run that has just ended has the same weights and accuracy.
same() {
  expect_code 0 "$1"
  expect_equal "$hash" "$(summary parameter_hash)" "$1: weights"
  expect_equal "$accuracy" "$(summary test_accuracy)" "$1: accuracy"
}
train 2 folder "${folder[@]}"
same "a folder"
expect_equal '["class 0", "class 1", "class 2", "class 3", "class 4", "class 5", "class 6", "class 7", "class 8", "class 9"]' \
  "$(value "$RUN/preprocessing.json" class_names)" "class names"
train 2 shards "${own[@]}" --set data.name=shards --set "data.path=$WORK/tar" \
  --set data.loader_threads=3 --set data.memory_budget_mib=0
same "archives, three threads, nothing remembered"

# A broken picture is named and replaced, the same after a resume; beyond the limit the run ends.
truncate -s 300 "$WORK/png/train/class 3/00007.png"
train 2 broken "${folder[@]}" --set train.steps=14  # an epoch has 10
expect_code 0 "a broken picture"
expect_text 'class 3/00007\.png: skipped' "a broken picture"
broken=$(summary parameter_hash)
[[ $(summary skipped_pictures) =~ ^[12]$ ]] || wrong "a broken picture on two ranks counts as $(summary skipped_pictures)"
train 2 stopped "${folder[@]}" --set train.steps=8 --set checkpoint.every_steps=8
run "$EQT_ROOT/scripts/run_local.sh" --ranks 2 -- --config tiny.json --out "$RUN" "${folder[@]}" \
  --set train.steps=14 --set checkpoint.every_steps=8 --resume
expect_code 0 "a broken picture, resumed"
expect_equal "$broken" "$(summary parameter_hash)" "a broken picture, resumed: weights"
train 2 limit "${folder[@]}" --set train.steps=14 --set data.skip_limit=0
expect_failure 3 'class 3/00007\.png.*data\.skip_limit' "a broken picture too many"

# Ranks with pictures of their own measure mean and deviation together.
for rank in 0 1; do
  for part in train test; do
    mkdir -p "$WORK/own/$rank/$part"
    for class in $((rank + 5)) $((rank + 6)); do cp -r "$WORK/png/$part/class $class" "$WORK/own/$rank/$part/"; done
  done
done
rm "$WORK/own/1/train/class 7/"*[0-4].png
local=(--set data.name=folder --set "data.path=$WORK/own/{rank}" --set data.partition.kind=local
  --set data.image_size=28 --set data.channels=1 --set data.limit_train=0 --set data.limit_test=0
  --set train.steps=3 --set train.epochs=1 --set train.batch_size=8)
program check --config tiny.json --ranks 2 "${local[@]}"
expect_code 0 "a check of pictures of their own"
train 2 measured "${local[@]}"
expect_code 0 "pictures of their own"
measured=$(summary parameter_hash)
/usr/bin/python3 - "$WORK" <<'PY' || wrong "mean and deviation are not those of all ranks' pictures"
import glob, json, math, sys
try:
    from PIL import Image
except ImportError:
    sys.exit(0)
bytes_ = b"".join(Image.open(f).tobytes() for f in glob.glob(sys.argv[1] + "/own/?/train/*/*.png"))
mean = sum(bytes_) / len(bytes_) / 255
deviation = math.sqrt(sum((b / 255 - mean) ** 2 for b in bytes_) / len(bytes_))
found = json.load(open(sys.argv[1] + "/measured/preprocessing.json"))
assert abs(found["mean"][0] - mean) < 1e-9 and abs(found["deviation"][0] - deviation) < 1e-9, (found, mean, deviation)
PY
train 1 simulated --simulate 2 "${local[@]}"
expect_code 0 "simulated ranks with pictures of their own"
expect_equal "$measured" "$(summary parameter_hash)" "simulated: weights"

# A rank may have one class, and test others; where rank 0's test set serves all, others need none.
rm -r "$WORK/own/1/train/class 7" "$WORK/own/0/test/class 5"
train 2 one-class "${local[@]}"
expect_code 0 "one class on a rank"
expect_equal '["class 5", "class 6", "class 7"]' "$(value "$RUN/preprocessing.json" class_names)" "one class on a rank: names"
rm -r "$WORK/own/1/test"
train 2 one-test "${local[@]}" --set data.partition.test=rank0
expect_code 0 "rank 0's test set"
expect_equal "$(find "$WORK/own" -path '*/train/*.png' | wc -l)" "$(value <(head -n 1 "$RUN/metrics.jsonl") train_samples)" \
  "rank 0's test set: pictures that are trained with"

# One name that a Mac and others write with other characters is no two classes.
mv "$WORK/own/0/train/class 6" "$WORK/own/0/train/$(printf 'caf\xc3\xa9')"
mv "$WORK/own/1/train/class 6" "$WORK/own/1/train/$(printf 'cafe\xcc\x81')"
train 2 alike "${local[@]}" --set data.partition.test=rank0
expect_failure 3 'U\+0065 U\+0301 and U\+00E9' "names of two ranks that read alike"
program check --config tiny.json --ranks 2 "${local[@]}" --set data.partition.test=rank0
expect_failure 3 'U\+0065 U\+0301 and U\+00E9' "check of names of two ranks that read alike"

# refuse REGEX WHAT [ARGUMENTS]: a run ends with 3 before its first step.
refuse() {
  local text=$1 what=$2
  shift 2
  program --config tiny.json --out "$WORK/refused" "${own[@]}" "$@"
  expect_failure 3 "$text" "$what"
}
mkdir -p "$WORK/case/train/cat" "$WORK/case/train/Cat" "$WORK/out/train/a" "$WORK/bad"
cp "$WORK/png/test/class 0/00000.png" "$WORK/case/train/cat/"
cp "$WORK/png/test/class 0/00000.png" "$WORK/case/train/Cat/"
ln -s "$WORK/png/train/class 1" "$WORK/out/train/b"
cp "$WORK/png/test/class 0/00000.png" "$WORK/out/train/a/"
tar -cPf "$WORK/bad/train-0.tar" "$WORK/case/train/cat/00000.png"
refuse 'more than upper and lower case' "classes that differ by case" --set data.name=folder --set "data.path=$WORK/case"
refuse 'links to stay below' "a link that leaves the folder" --set data.name=folder --set "data.path=$WORK/out"
refuse 'stay inside the archive' "an absolute path in an archive" --set data.name=shards --set "data.path=$WORK/bad"
program check --config tiny.json "${own[@]}" --set data.name=folder --set "data.path=$WORK/absent"
expect_failure 3 'absent.*found nothing' "a folder on another machine"
expect_equal folder "$(value "$OUT" data.name)" "a folder on another machine: the config"
refuse_config 'data\.mean' "means for other channels" "${folder[@]}" --set 'data.mean=[0.1,0.2]'
refuse_config 'data\.image_size' "image_size of a set with its own size" --set data.image_size=64

finish
