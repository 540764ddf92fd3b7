#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test of the Python package where PyTorch with Gloo is: run.sh NAME_test.py. PYTHON replaces Debian's Python.
# INSTALLED=1 tests the package that this Python has, instead of the sources'.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import numpy, torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null ||
  { echo "[eqt-skip] python3-torch with Gloo is not installed"; exit 0; }
[[ -n ${INSTALLED:-} ]] || export PYTHONPATH=$here/../../python${PYTHONPATH:+:$PYTHONPATH}
GLOO_SOCKET_IFNAME=lo exec "$python" -B "$here/$1"
