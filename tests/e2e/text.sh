#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Texts: a small BERT learns to tell made-up texts apart, resumes, gossips, and starts from a folder of Hugging Face's.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# 400 texts of two classes in CSV, with commas, quotes and line ends in them; 80 as JSON lines; a vocabulary; and the
# folder of a network that is too small to be of use.
mkdir "$WORK/texts" "$WORK/folder"
python3 - "$WORK" <<'PY'
import csv, json, random, struct, sys
work = sys.argv[1]
draw = random.Random(5)
words = {"1": "sun beach warm swim".split(), "2": "ice snow cold ski".split()}
common = 'the, a "very" long day\nand night in some small town'.split(" ")
def text(label):
    return " ".join(draw.choice(words[label] if draw.random() < 0.3 else common) for _ in range(draw.randrange(4, 30)))
with open(work + "/texts/train.csv", "w", newline="") as file:
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([label, text(label), text(label)] for label in (draw.choice("12") for _ in range(400)))
with open(work + "/texts/test.jsonl", "w") as file:
    for label in (draw.choice("12") for _ in range(80)):
        print(json.dumps({"label": int(label), "text": text(label)}), file=file)
vocabulary = "[PAD] [UNK] [CLS] [SEP] sun beach warm swim ice snow cold ski the a , very long day and night \" ##s".split(" ")
for folder in ("/texts", "/folder"):
    with open(work + folder + "/vocab.txt", "w") as file:
        file.write("".join(token + "\n" for token in vocabulary))
with open(work + "/folder/config.json", "w") as file:
    json.dump({"model_type": "distilbert", "vocab_size": len(vocabulary), "dim": 8, "n_layers": 1, "n_heads": 2,
               "hidden_dim": 16, "max_position_embeddings": 32, "activation": "gelu"}, file)
# A checkpoint without classifier: the first embedding is all ones, everything else zero.
shapes = {"embeddings.word_embeddings.weight": [len(vocabulary), 8], "embeddings.position_embeddings.weight": [32, 8],
          "embeddings.LayerNorm.weight": [8], "embeddings.LayerNorm.bias": [8]}
layer = "transformer.layer.0."
for name in ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"):
    shapes[layer + name + ".weight"], shapes[layer + name + ".bias"] = [8, 8], [8]
for name in ("sa_layer_norm", "output_layer_norm"):
    shapes[layer + name + ".weight"] = shapes[layer + name + ".bias"] = [8]
shapes[layer + "ffn.lin1.weight"], shapes[layer + "ffn.lin1.bias"] = [16, 8], [16]
shapes[layer + "ffn.lin2.weight"], shapes[layer + "ffn.lin2.bias"] = [8, 16], [8]
header, data = {}, b""
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    values = struct.pack("<%df" % count, *([1.0 if "word" in name else 0.0] * count))
    header["distilbert." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header).encode()
with open(work + "/folder/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
PY
cat >"$WORK/tiny.json" <<'JSON'
{
  "name": "texts",
  "seed": 1,
  "threads_per_rank": 1,
  "model": {"name": "bert", "layers": 1, "hidden": 16, "heads": 2},
  "data": {"name": "text", "path": "texts", "max_length": 24},
  "train": {"epochs": 1, "steps": 48, "batch_size": 16},
  "optimizer": {"name": "adamw", "learning_rate": 0.01, "weight_decay": 0.01, "clip_norm": 1},
  "schedule": {"kind": "linear", "warmup_epochs": 0.2},
  "synchronization": {"timeout_seconds": 60},
  "output": {"progress": "off"}
}
JSON

program check --config tiny.json
expect_code 0 "check"
grep -q 'memory: about' "$ERR" || wrong "check estimates the memory of texts"

train 2 whole
expect_code 0 "two ranks"
expect_equal true "$(summary replicas_identical)" "two ranks: replicas"
expect_number "$(summary test_accuracy)" '>=' 0.9 "two ranks: accuracy"
whole=$(summary parameter_hash)
expect_equal '["1", "2"]' "$(value "$RUN/preprocessing.json" class_names)" "class names"
expect_equal 24 "$(value "$RUN/preprocessing.json" text.max_length)" "length"
cmp -s "$WORK/texts/vocab.txt" "$RUN/vocab.txt" || wrong "the run folder keeps the vocabulary"

# A rate that short tensors exceed, since each sends a value at least.
train 2 short --set train.steps=3 --set compressor.name=e-elastiquant --set compressor.rate=0.35 \
  --set compressor.small_tensors=int8 --set compressor.skip_below=1 --set data.max_length=512
expect_code 0 "a rate"
grep -q 'compressor.rate: expected 0.35 bits per value, found .*short tensors' "$RUN/metrics.jsonl" ||
  wrong "a rate that is not held: no note"
RUN=$WORK/whole

# Texts one a line are predicted, as they were read in training.
printf 'a long warm day\n\nice and snow\n' >"$WORK/lines.txt"
run "$EQT_PROGRAM" predict "$RUN" "$WORK/lines.txt"
expect_code 0 "predict"
expect_equal '["1", "2"]' "$(python3 -c 'import json, sys
found = [json.loads(line) for line in open(sys.argv[1])]
assert [one["input"].split(":")[-1] for one in found] == ["1", "2", "3"], found
print(json.dumps([found[0]["class"], found[2]["class"]]))' "$OUT")" "predict: classes"

files=$(cat "$OUT")
# A network is tested without the texts that it learnt from, with the run's own vocabulary.
mkdir tests_alone
cp texts/test.jsonl tests_alone/
program evaluate "$RUN" --set data.path=tests_alone
expect_code 0 "evaluate texts without the training set"
expect_equal "$(summary test_accuracy)" "$(value "$RUN/evaluation/tests_alone-test/evaluation.json" metrics.accuracy)" \
  "evaluate texts without the training set"
# shellcheck disable=SC2016  # the inner shell expands them
run bash -c '"$0" predict "$1" <"$2"' "$EQT_PROGRAM" "$RUN" "$WORK/lines.txt"
expect_code 0 "predict: standard input"
expect_equal "${files//"$WORK/lines.txt:"/-:}" "$(cat "$OUT")" "predict: texts from standard input"

cp -r "$RUN" "$WORK/other_words"
echo further >>"$WORK/other_words/vocab.txt"
program predict "$WORK/other_words" "$WORK/lines.txt"
expect_failure 3 'below 22.*found tokens .*below 23.* by .*other_words/vocab.txt' "predict: another vocabulary"

# The same bits after a stop within an epoch, although batches are in buckets by length.
train 2 constant --set schedule.kind=constant
constant=$(summary parameter_hash)
train 2 again --set schedule.kind=constant --set train.steps=17 --set checkpoint.every_steps=17
train 2 again --set schedule.kind=constant --set checkpoint.every_steps=48 --resume
expect_equal "$constant" "$(summary parameter_hash)" "resumed: the parameters"
train 1 simulated --simulate 2
expect_equal "$whole" "$(summary parameter_hash)" "simulated: the parameters"

train 2 quantized --set compressor.name=e-elastiquant --set compressor.skip_below=64 --set data.partition.kind=skew --set data.partition.skew=0.8
expect_code 0 "e-elastiquant, skewed"
train 2 choco --set synchronization.algorithm=choco-sgd --set compressor.name=qsgd --set compressor.bits=8 --set compressor.skip_below=64
expect_code 0 "choco-sgd"
expect_number "$(summary test_accuracy)" '>=' 0.7 "choco-sgd: accuracy"

# From a folder: all hidden states are alike there, and the classifier is new.
folder=(--set model.name=bert --set model.path=folder)
python3 - <<'PY'
import json
config = json.load(open("tiny.json"))
config["model"] = {"name": "bert", "path": "folder"}
json.dump(config, open("folder.json", "w"))
PY
run "$EQT_PROGRAM" --config folder.json --out "$WORK/loaded" --set train.steps=1 --set optimizer.learning_rate=0
expect_code 0 "from a folder"
expect_number "$(value "$WORK/loaded/summary.json" train_loss)" '<' 0.694 "from a folder: loss"
python3 - "$WORK/loaded/model.pt" <<'PY' || wrong "the weights are those of the folder"
import sys
try:
    import torch
except ImportError:
    sys.exit(0)
weights = dict(torch.load(sys.argv[1], map_location="cpu"))
assert bool((weights["distilbert.embeddings.word_embeddings.weight"] == 1).all())
assert bool((weights["distilbert.transformer.layer.0.ffn.lin1.weight"] == 0).all())
assert weights["classifier.weight"].shape == (2, 8) and bool((weights["classifier.weight"] != 0).any())
PY
mv folder moved
program predict loaded lines.txt
expect_code 0 "predict without the folder that training began with"
expect_equal 3 "$(wc -l <"$OUT")" "predict without the folder that training began with"
mv moved folder

# Ranks with texts of their own: rank 1 has one label, and tests another.
mkdir -p parts/0 parts/1
for _ in $(seq 8); do
  printf '1,sun beach\n2,ice snow\n' >>parts/0/train.csv
  printf '2,cold ski\n' >>parts/1/train.csv
done
cp parts/0/train.csv parts/0/test.csv
printf '1,warm swim\n' >parts/1/test.csv
parts=(--set "data.path=$WORK/parts/{rank}" --set data.vocabulary=texts/vocab.txt --set data.partition.kind=local
  --set train.batch_size=4 --set train.steps=2)
program check --config tiny.json --ranks 2 "${parts[@]}"
expect_code 0 "a check of texts of their own"
train 2 parts "${parts[@]}"
expect_code 0 "one label on a rank"
expect_equal '["1", "2"]' "$(value "$RUN/preprocessing.json" class_names)" "one label on a rank: names"
expect_equal 17 "$(value <(head -n 1 "$RUN/metrics.jsonl") test_samples)" "one label on a rank: test samples"
printf 'caf\xe9,sun\n2,ice\n' >parts/1/train.csv
train 2 latin "${parts[@]}"
expect_failure 3 'train\.csv, line 1: expected names of classes in UTF-8.*"caf\?"' "a label that is no UTF-8"
printf '2,ice\n ,sun\n' >parts/1/train.csv
train 2 empty "${parts[@]}"
expect_failure 3 'train\.csv, line 2: .*found an empty one' "an empty label"

# A language model of a text in which each word tells the next one.
mkdir "$WORK/stream"
for _ in $(seq 150); do echo "sun beach warm swim ice snow cold ski a very long day"; done >"$WORK/stream/train.txt"
head -n 20 "$WORK/stream/train.txt" >"$WORK/stream/test.txt"
train 2 language --set task.kind=language-model --set data.path=stream --set data.vocabulary=texts/vocab.txt \
  --set data.max_length=10 --set train.epochs=30 --set train.steps=150
expect_code 0 "a language model"
expect_number "$(summary test_perplexity)" '<' 2 "a language model: perplexity"
{ echo "sun beach"; echo; for _ in 1 2 3; do printf 'sun beach warm swim ice snow cold ski a very long day '; done; echo; } >lines
program predict language lines
expect_code 0 "predict which word follows"
python3 - "$OUT" <<'PY' || wrong "other words follow than in the text"
import json, sys
short, nothing, long = [json.loads(line) for line in open(sys.argv[1])]
assert (short["input"], short["next"], len(short["likely"])) == ("lines:1", "warm", 5), short
assert (nothing["next"], nothing["perplexity"]) == ("sun", None), nothing
assert 0.5 < short["probability"] <= 1 and 1 <= short["perplexity"] < 2, short
assert long["next"] in ("[SEP]", "sun") and long["perplexity"] < 3, long
PY

# What cannot be read.
program check --config folder.json --set data.max_length=33
expect_failure 2 'data.max_length' "texts longer than the network's positions"
program check --config tiny.json --set model.hidden=15
expect_failure 2 'model.heads' "heads that do not divide the width"
program check --config folder.json --set model.layers=3
expect_failure 2 'only without model.path' "sizes beside a folder"
program check --config tiny.json --set model.name=resnet20 --set model.layers=4 --set model.hidden=256 --set model.heads=4
expect_failure 2 'texts|pictures' "a network of pictures for texts"
program check --config tiny.json --set data.name=synthetic --set data.path=null --set data.max_length=128
expect_failure 2 'texts' "pictures for a network of texts"
printf '{"do_lower_case": false}' >"$WORK/folder/tokenizer_config.json"
program check --config folder.json
expect_failure 2 'data.lowercase' "capitals count"
rm "$WORK/folder/tokenizer_config.json"
broken() { # broken REGEX WHAT: train.csv is what standard input says
  mkdir -p "$WORK/broken"
  cp "$WORK"/texts/{test.jsonl,vocab.txt} "$WORK/broken/"
  cat >"$WORK/broken/train.csv"
  train 1 broken-run --set data.path=broken
  expect_failure 3 "$1" "$2"
}
printf '1,"a\n2,b\n' | broken 'line 1.*closing quote' "a quote that is not closed"
printf '1,a\n1,b\n' | broken 'two classes' "one class"
printf '' | broken 'empty' "an empty file"
printf '1,a\n3,b\n' | broken 'test.jsonl' "a label that training lacks"
finish
