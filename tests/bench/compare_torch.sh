#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Our codecs compared with torch operations that do the same: see compare_torch.py.
#
# usage: tests/bench/compare_torch.sh [--values N] [--rounds N]
# EQT_PROGRAM and PYTHON in the environment replace the defaults.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${EQT_PROGRAM:-$here/../../build/release/equant-train}
python=${PYTHON:-/usr/bin/python3}

if [[ ! -x $program ]]; then
  echo "expected the program at $program: build it (cmake --build build/release) or set EQT_PROGRAM" >&2
  exit 2
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "[eqt-skip] no PyTorch in $python: install python3-torch or set PYTHON"
  exit 0
fi
OMP_NUM_THREADS=1 exec "$python" "$here/compare_torch.py" "$program" "$@"
