#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Chooses batch, local steps and learning rate for a job by a probe of it, and starts it with them. Options:
# scripts/tune.sh --help
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
command -v python3 >/dev/null || fail 1 "python3 was not found: install Debian's python3."
export EQT_PROGRAM=${EQT_PROGRAM:-$EQT_DEFAULT_PROGRAM}
exec python3 "$EQT_ROOT/scripts/lib/tune.py" "$@"
