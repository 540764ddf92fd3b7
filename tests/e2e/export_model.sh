#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/export_model.py writes networks of Python's that train here.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
/usr/bin/python3 -c 'import torch' 2>/dev/null || skip "python3-torch is not installed"
export_model() { run /usr/bin/python3 "$EQT_ROOT/scripts/export_model.py" "$@"; }

cat >"$WORK/nets.py" <<'PY'
import torch
from torch import nn
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 10)
    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))).mean((2, 3)))
class NotScriptable(Small):
    def forward(self, x, **kwargs):
        return super().forward(x)
class Branches(Small):
    def forward(self, x, **kwargs):
        y = super().forward(x)
        return y if x.sum() == 0 else 2 * y
def number():
    return 3
PY
export_model "$WORK/nets.py:Small" --out "$WORK/small.pt" --input 3x32x32
expect_code 0 "a module that can be scripted"
grep -q 'by script' "$OUT" || wrong "it is scripted"
train 2 small --set model.name=torchscript --set "model.path=$WORK/small.pt"
expect_code 0 "it trains"
export_model "$WORK/nets.py:NotScriptable" --out "$WORK/traced.pt" --input 3x32x32
expect_code 0 "a module that cannot be scripted"
grep -q 'by trace' "$OUT" || wrong "it is traced"
expect_text 'BatchNorm2d' "a warning of layers that differ in training"
train 2 traced --set model.name=torchscript --set "model.path=$WORK/traced.pt"
expect_code 0 "the traced one trains"

export_model "$WORK/nets.py:Branches" --out "$WORK/branches.pt" --input 3x32x32
expect_code 2 "a trace that took a branch"
expect_text 'relative difference' "a trace that took a branch"
[[ ! -e $WORK/branches.pt && -z $(find "$WORK" -name '.export_model.*') ]] || wrong "a file was left of a trace that took a branch"
ln -s small.pt "$WORK/link.pt"
export_model "$WORK/nets.py:Small" --out "$WORK/link.pt" --input 3x32x32
expect_failure 2 'regular file' "a link as output"
export_model "$WORK/nets.py:NotScriptable" --how script --out "$WORK/no.pt" --input 3x32x32
expect_code 2 "--how script"
export_model "$WORK/nets.py:number" --out "$WORK/no.pt"
expect_failure 2 'torch.nn.Module' "no module"
export_model "$WORK/nets.py:absent" --out "$WORK/no.pt"
expect_failure 2 'absent' "no such function"
export_model absent.py:Small --out "$WORK/no.pt"
expect_failure 2 'absent.py' "no such file"
export_model small --out "$WORK/no.pt"
expect_failure 2 'KIND:NAME' "a name without its kind"
export_model "$WORK/nets.py:Small" --out "$WORK/no.pt" --input 3xx
expect_failure 2 'input' "no shape"
# A small network of transformers, which is then fine-tuned on texts.
if /usr/bin/python3 -c 'import transformers' 2>/dev/null; then
  mkdir "$WORK/texts"
  for i in {1..32}; do echo "$((i % 2 + 1)),\"word number $i of class $((i % 2))\""; done | tee "$WORK/texts/train.csv" \
    >"$WORK/texts/test.csv"
  mkdir "$WORK/tiny_bert"
  echo '{"model_type": "bert", "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3,
    "intermediate_size": 40, "max_position_embeddings": 16}' >"$WORK/tiny_bert/config.json"
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' word number of class {0..9} >"$WORK/vocab.txt"
  export_model "transformers:$WORK/tiny_bert" --classes 2 --input int:8 --out "$WORK/bert.pt"
  expect_code 0 "a network of transformers"
  train 2 texts --set model.name=torchscript --set "model.path=$WORK/bert.pt" --set data.name=text \
    --set "data.path=$WORK/texts" --set "data.vocabulary=$WORK/vocab.txt" --set data.max_length=16 \
    --set data.limit_train=0 --set data.limit_test=0 --set train.batch_size=4
  expect_code 0 "the network of transformers trains"
else
  export_model transformers:bert-base-uncased --input int:8 --out "$WORK/no.pt"
  expect_failure 2 'transformers' "transformers is not installed"
  echo "[eqt-note] Python's package transformers is not installed: its networks were not exported"
fi
/usr/bin/python3 -c 'import torchvision' 2>/dev/null || {
  export_model torchvision:resnet18 --out "$WORK/no.pt"
  expect_failure 2 'torchvision' "a package that is not installed"
}
finish
