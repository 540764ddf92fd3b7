#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Networks exported to ONNX. Where EQT_ONNX_PYTHON names a Python with onnxruntime and numpy, every network computes
# there what its TorchScript archive does, on real pictures if they are installed.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || skip "python3-torch or python3-numpy is not installed"

mnist=/usr/share/datasets/fashion-mnist
set_of=(--set data.name=synthetic)
[[ ! -r $mnist/t10k-images-idx3-ubyte.gz ]] || set_of=(--set data.name=fashion-mnist)
short=(--set train.steps=2 --set data.limit_train=64 --set data.limit_test=16)

# exported NAME [ARGUMENT]...: trains two steps and exports the run both ways, as $WORK/NAME.pt and .onnx.
exported() {
  local name=$1
  shift
  train 1 "$name" "${short[@]}" "$@"
  expect_code 0 "training $name"
  [[ $CODE -eq 0 ]] || return 0
  program export "$RUN" --to torchscript --out "$WORK/$name.pt"
  expect_code 0 "$name as TorchScript"
  program export "$RUN" --to onnx --out "$WORK/$name.onnx"
  if grep -q 'libonnx-dev' "$ERR"; then
    expect_failure 3 'libonnx-dev' "a build without ONNX's library"
    [[ ! -e $WORK/$name.onnx ]] || wrong "a build without ONNX's library wrote a file"
    [[ $FAILURES -eq 0 ]] || finish
    skip "the program was built without ONNX's library"
  fi
  expect_code 0 "$name as ONNX"
  [[ $CODE -ne 0 || -s $WORK/$name.onnx ]] || wrong "$name.onnx was not written"
  [[ $CODE -ne 0 ]] || names+=("$name")
}

names=()
exported resnet20 "${set_of[@]}"
# The usual place, and what may not be replaced.
program export "$RUN" --to onnx
expect_code 0 "the usual place"
cmp "$RUN/model.onnx" "$WORK/resnet20.onnx" || wrong "the same export has other bytes"
ln -s resnet20.onnx "$WORK/link.onnx"
program export "$RUN" --to onnx --out "$WORK/link.onnx"
expect_failure 74 'expected a regular file or nothing' "a link as output"
# A run again in the same folder: the older weights' export goes.
train 1 resnet20 "${short[@]}" "${set_of[@]}" --overwrite
[[ ! -e $RUN/model.onnx ]] || wrong "after --overwrite an export of the older weights is left"

# So it goes where the run goes on.
program export "$RUN" --to onnx
train 1 resnet20 "${short[@]}" "${set_of[@]}" --set checkpoint.every_steps=1 --overwrite
program export "$RUN" --to onnx
train 1 resnet20 "${short[@]}" "${set_of[@]}" --set checkpoint.every_steps=1 --set train.steps=3 --resume
expect_code 0 "a longer run"
[[ ! -e $RUN/model.onnx ]] || wrong "after --resume an export of the older weights is left"

# A module of the user's own.
cat >"$WORK/own.py" <<'PY'
import sys, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 10)
    def forward(self, x):
        return self.last(x.mean((2, 3)))
torch.jit.script(Net()).save(sys.argv[1])
PY
/usr/bin/python3 "$WORK/own.py" "$WORK/own.pt"
train 1 own "${short[@]}" --set model.name=torchscript --set "model.path=$WORK/own.pt"
expect_code 0 "a module of the user's own"
program export "$RUN" --to onnx --out "$WORK/own.onnx"
expect_failure 2 'torch\.onnx\.export' "a module of the user's own as ONNX"
[[ ! -e $WORK/own.onnx ]] || wrong "a file was written of a module of the user's own"

python=${EQT_ONNX_PYTHON:-python3}
if ! "$python" -c 'import onnxruntime, numpy' 2>/dev/null; then
  echo "[eqt-note] $python has no module onnxruntime (EQT_ONNX_PYTHON names another): exports to ONNX were not computed"
  finish
  exit
fi

for network in $("$EQT_PROGRAM" list models | awk '$1 != "torchscript" && $1 != "bert" && $1 != "resnet20" { print $1 }'); do
  exported "$network" "${set_of[@]}" --set "model.name=$network"
done
for norm in groupnorm evonorm-s0 range-batchnorm range-evonorm; do
  exported "resnet20-$norm" "${set_of[@]}" --set "model.normalization=$norm"
done
exported resnet20-padding "${set_of[@]}" --set model.shortcut=padding
exported mobilenet_v2-groupnorm "${set_of[@]}" --set model.name=mobilenet_v2 --set model.normalization=groupnorm
# Texts of several lengths; a class of each, and the next token.
mkdir "$WORK/texts"
for i in {1..64}; do
  printf '%d,"%s"\n' $((i % 2 + 1)) "$(printf 'word %.0s' $(seq $((i % 9 + 1))))number of class $((i % 2))"
done | tee "$WORK/texts/train.csv" >"$WORK/texts/test.csv"
cut -d'"' -f2 "$WORK/texts/train.csv" | tee "$WORK/texts/train.txt" >"$WORK/texts/test.txt"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' word number of class {0..9} >"$WORK/texts/vocab.txt"
text=(--set model.name=bert --set data.name=text --set "data.path=$WORK/texts"
  --set "data.vocabulary=$WORK/texts/vocab.txt" --set data.max_length=16
  --set data.limit_train=0 --set data.limit_test=0)
exported bert "${text[@]}"
exported bert-language-model "${text[@]}" --set task.kind=language-model

/usr/bin/python3 "$EQT_ROOT/tests/e2e/onnx_outputs.py" torchscript "$WORK" "$mnist" "${names[@]}" || {
  wrong "Python does not run the TorchScript archives"
  finish
}
"$python" "$EQT_ROOT/tests/e2e/onnx_outputs.py" onnx "$WORK" "${names[@]}" || wrong "onnxruntime computes something else"
finish
