#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A few cells of tests/chaos/matrix.py, which is run completely by hand.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

code=0
"$EQT_ROOT/tests/chaos/matrix.py" --small --program "$EQT_PROGRAM" || code=$?
[[ $code -eq 0 ]] || wrong "matrix.py: expected exit code 0, found $code"
finish
