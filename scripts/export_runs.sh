#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Exports finished runs to MLflow or Weights & Biases. Options: scripts/export_runs.sh --help
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
python=${EQT_TRACKER_PYTHON:-python3}
command -v "$python" >/dev/null || fail 1 "$python was not found: install Debian's python3, or set EQT_TRACKER_PYTHON."
exec "$python" "$EQT_ROOT/scripts/lib/export_runs.py" "$@"
