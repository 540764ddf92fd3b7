#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs what a report needs of finished runs into one small archive. Options: scripts/archive_runs.sh --help
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
command -v python3 >/dev/null || fail 1 "python3 was not found: install Debian's python3."
exec python3 "$EQT_ROOT/scripts/lib/archive_runs.py" "$@"
