#!/usr/bin/env bash
# script/run-remote with a real build on the node, which is an sshd of our own on this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
script/setup openssh-server openssh-client
tests/remote/run_remote_test.sh "$PWD/build/release/bin/greta-infer" \
  "$PWD/build/release/bin/greta-db" --build
