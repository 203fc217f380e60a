#!/usr/bin/env bash
# Logits of every position, greta against llama.cpp, for every weight type; exits 1 when one is off.
#
#   GRETA_LLAMA_LIBS=FOLDER GRETA_LLAMA_SRC=CLONE tests/peer/compare.sh
#
# GRETA_LLAMA_LIBS holds libllama.so, libggml.so, libggml-base.so and the CPU backends (any version
# suffix), GRETA_LLAMA_SRC a clone of llama.cpp of that version, for its headers. llama.cpp rounds
# activations to the weights' type, greta does not: the limits are those roundings, not ours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${GRETA_LLAMA_LIBS:?the folder of the libraries of llama.cpp}"
: "${GRETA_LLAMA_SRC:?a clone of llama.cpp}"
cmake --preset release >/dev/null
cmake --build --preset release --target greta-infer greta_logits >/dev/null

folder=$(mktemp -d "${TMPDIR:-/tmp}/greta-peer.XXXXXX")
trap 'rm -rf "$folder"' EXIT
tests/peer/build_llama_logits "$folder/llama_logits"

# Limits of NMSE by type.
limit() {
  case $1 in
    f32) echo 1e-10 ;;
    f16) echo 1e-5 ;;
    bf16) echo 1e-4 ;;
    *) echo 5e-3 ;;
  esac
}

printf '%-8s %-22s %-8s %-10s %-10s %s\n' type shape path NMSE limit 'same top-1'
failed=0
check() {
  local type=$1 shape=$2 tokens=64 seed=$3
  shift 3
  build/release/engine/greta-infer synth --type "$type" --seed "$seed" --out "$folder/model.gguf" \
    --force "$@" 2>/dev/null
  awk -v n="$tokens" -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < n; i++) print int(rand() * 900) }' \
    >"$folder/ids"
  "$folder/llama_logits" "$folder/model.gguf" "$folder/ids" "$folder/peer.f32"
  while read -r path nmse same; do
    verdict=ok
    awk -v a="$nmse" -v b="$(limit "$type")" 'BEGIN { exit !(a <= b) }' || verdict=OFF failed=1
    printf '%-8s %-22s %-8s %-10s %-10s %-10s %s\n' \
      "$type" "$shape" "$path" "$nmse" "$(limit "$type")" "$same" "$verdict"
  done < <(build/release/tests/greta_logits "$folder/model.gguf" "$folder/ids" "$folder/peer.f32")
}

for type in f32 f16 bf16 q8_0 q6_k q5_k q5_k_m q4_k q4_k_m q4_0; do
  check "$type" tiny 1 --preset tiny
done
check f32 'MHA, tied' 2 --preset tiny --kv-heads 8 --tied
check f32 'MQA, rope_freqs' 3 --preset tiny --kv-heads 1 --rope-freqs
check f32 'dim 96, ffn 200' 4 --preset tiny --dim 96 --heads 6 --kv-heads 3 --head-dim 16 --ffn 200
check q8_0 'head_dim 64 of dim 256' 5 --preset tiny --heads 8 --kv-heads 2 --head-dim 64
check q4_k_m 'small' 6 --preset small
exit "$failed"
