#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every combination of configs or rows, values and seeds and makes one table of the results.
# Options, resuming and columns: scripts/sweep.sh --help
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
command -v python3 >/dev/null || fail 1 "python3 was not found: install Debian's python3."
exec python3 "$EQT_ROOT/scripts/lib/sweep.py" "$@"
