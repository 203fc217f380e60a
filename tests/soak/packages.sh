#!/usr/bin/env bash
# The packages, and the Dockerfile step by step, in bare systems of Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
script/setup debootstrap lintian

for test in packages dockerfile; do
  status=0
  "tests/packages/${test}_test.sh" || status=$?
  ((status == 0 || status == 77)) || exit "$status"  # 77: skipped, and it says why
done
