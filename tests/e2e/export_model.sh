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
[[ ! -e $WORK/branches.pt && ! -e $WORK/branches.pt.tmp ]] || wrong "a file was left of a trace that took a branch"
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
/usr/bin/python3 -c 'import torchvision' 2>/dev/null || {
  export_model torchvision:resnet18 --out "$WORK/no.pt"
  expect_failure 2 'torchvision' "a package that is not installed"
}
finish
