#!/usr/bin/env bash
# Every fault at every place, and clean probes of many models: none missed, no false alarm.
#
#   tests/soak/detection_matrix.sh [CLEAN_PROBES]      200 unless told
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

exec build/release/tests/detection_matrix --late all --clean "${1:-200}"
