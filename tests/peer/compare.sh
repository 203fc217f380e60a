#!/usr/bin/env bash
# Logits of every position, greta against llama.cpp, for every weight type, architecture and way to
# scale RoPE, in prefill by every route of the products and in decode; exits 1 when one is off. llama.cpp rounds activations to what suits the
# weights, so it is asked a second time with its own expansion of them to f32.
#
#   GRETA_LLAMA_LIBS=FOLDER GRETA_LLAMA_SRC=CLONE tests/peer/compare.sh [--backend cpu|hip] [--build DIR]
#
# GRETA_LLAMA_LIBS holds libllama.so, libggml.so, libggml-base.so and the CPU backends (any version
# suffix), GRETA_LLAMA_SRC a clone of llama.cpp of that version, for its headers. NGL, the layers that
# llama.cpp puts on a GPU, wants libraries built for one. DIR is a build with the targets greta-infer
# and greta_logits, for hip one with GPU kernels; without it, build/release is brought up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "tests/peer/compare.sh: $*" >&2
  exit 2
}

backend=cpu build=''
while (($# > 0)); do
  case $1 in
    --backend) backend=${2:?--backend wants cpu or hip} && shift 2 ;;
    --build) build=${2:?--build wants a folder} && shift 2 ;;
    *) die "unknown argument $1" ;;
  esac
done
: "${GRETA_LLAMA_LIBS:?the folder of the libraries of llama.cpp}"
: "${GRETA_LLAMA_SRC:?a clone of llama.cpp}"
if [[ -z $build ]]; then
  build=build/release
  cmake --preset release >/dev/null
  cmake --build --preset release --target greta-infer greta_logits >/dev/null
fi
infer=$build/bin/greta-infer logits=$build/tests/greta_logits
[[ -x $infer && -x $logits ]] || die "no $infer or no $logits"

window=''  # of the model, which llama.cpp must be told
folder=$(mktemp -d "${TMPDIR:-/tmp}/greta-peer.XXXXXX")
trap 'rm -rf "$folder"' EXIT
tests/peer/build_llama llama_logits "$folder/llama_logits"

# limit TYPE SUMS: of NMSE, the square of a relative L2. What llama.cpp rounds sets it, activations to the
# weights' type or to 8 bits; a route of ours that takes 16-bit operands rounds no coarser, and has the
# limit of f16 with f32 weights. On a GPU llama.cpp itself was up to 1.2e-5 from what it is on the CPU.
limit() {
  case $1-$2-${NGL:-0} in
    f32-f32-0) echo 1e-10 ;;
    f32-*-0 | f16-*-0) echo 1e-5 ;;
    f32-* | f16-*) echo 5e-5 ;;
    bf16-*) echo 1e-4 ;;
    *) echo 5e-3 ;;
  esac
}

row() { printf "%-8s %-32s %-8s %-6s %-5s %-9s %-7s %-6s %s\n" "$@"; }
row type shape phase route sums NMSE limit top-1 ""
failed=0

# one PEER_MODEL LIMIT_TYPE TYPE SHAPE: logits of $folder/ids, greta's of $model. Sums of 16-bit operands
# have the limit of the model's own type.
one() {
  local peer=$1 limit_type=$2 type=$3 shape=$4 phase route arithmetic nmse same verdict most
  "$folder/llama_logits" "$peer" "$folder/ids" "$folder/peer.f32" ${window:+"$window"}
  # By way of a file, so that a comparison that fails ends the script.
  "$logits" "$model" "$folder/ids" "$folder/peer.f32" "$backend" >"$folder/scores"
  while read -r phase route arithmetic nmse same; do
    most=$(limit "$([[ $arithmetic == f32 ]] && echo "$limit_type" || echo "$type")" "$arithmetic")
    verdict=ok
    awk -v a="$nmse" -v b="$most" 'BEGIN { exit !(a ~ /^[0-9]/ && a <= b) }' || verdict=OFF failed=1
    row "$type" "$shape" "$phase" "$route" "$arithmetic" "$nmse" "$most" "$same" "$verdict"
  done <"$folder/scores"
}

# both TYPE SHAPE: with the model as it is, then with its weights expanded to f32 by llama.cpp: it rounds
# no activations for those, so what differs is how the two read the weights.
both() {
  one "$model" "$1" "$1" "$2"
  [[ $1 != f32 ]] || return 0
  "$folder/llama_logits" "$model" --to-f32 "$folder/expanded.gguf"
  one "$folder/expanded.gguf" f32 "$1" "$2, as f32"
}

check() {
  local type=$1 shape=$2 tokens=64 seed=$3
  shift 3
  model=$folder/model.gguf
  "$infer" synth --type "$type" --seed "$seed" --out "$model" --force "$@" 2>/dev/null
  # Not rand(): some awks seed it themselves.
  awk -v n="$tokens" -v x="$seed" 'BEGIN { while (n-- > 0) { x = x * 16807 % 2147483647; print x % 900 } }' \
    >"$folder/ids"
  both "$type" "$shape"
}

for type in f32 f16 bf16 q8_0 q6_k q5_k q5_k_m q4_k q4_k_m q4_0 q4_1 q5_0 q5_1 iq4_nl q3_k q2_k; do
  check "$type" tiny 1 --preset tiny
done
check f32 'MHA, tied' 2 --preset tiny --kv-heads 8 --tied
check f32 'MQA, rope_freqs' 3 --preset tiny --kv-heads 1 --rope-freqs
check f32 'dim 96, ffn 200' 4 --preset tiny --dim 96 --heads 6 --kv-heads 3 --head-dim 16 --ffn 200
check q8_0 'head_dim 64 of dim 256' 5 --preset tiny --heads 8 --kv-heads 2 --head-dim 64
check q4_k_m 'small' 6 --preset small
check q4_k_m 'dim 96, ffn 224' 8 --preset tiny --dim 96 --heads 6 --kv-heads 3 --head-dim 16 --ffn 224
check f16 'head_dim 128' 7 --preset small --heads 8 --kv-heads 2 --head-dim 128

# Frequencies of 10,000 and 4,096 positions: some planes are stretched, some not, some in part.
yarn=(--rope-scaling yarn --rope-theta 10000 --original-context 4096)
check f32 'qwen2' 9 --preset tiny --architecture qwen2
check f32 'qwen2, tied' 10 --preset tiny --architecture qwen2 --tied
check q8_0 'qwen2' 11 --preset tiny --architecture qwen2
check f32 'qwen3' 12 --preset tiny --architecture qwen3
check f32 'qwen3, head_dim 64' 13 --preset tiny --architecture qwen3 --head-dim 64 --kv-heads 2
check q4_k_m 'qwen3' 14 --preset tiny --architecture qwen3
check f32 'linear' 15 --preset tiny --rope-scaling linear --rope-factor 8
check f32 'qwen3, linear' 16 --preset tiny --architecture qwen3 --rope-scaling linear
check f32 'yarn' 17 --preset tiny "${yarn[@]}"
check f32 'qwen2, yarn' 18 --preset tiny --architecture qwen2 "${yarn[@]}" --rope-factor 8
check f32 'qwen3, yarn, attn_factor' 19 --preset tiny --architecture qwen3 "${yarn[@]}" --rope-attn-factor 1.25
check f32 'yarn, rope_freqs' 20 --preset tiny "${yarn[@]}" --rope-freqs
window=20
check f32 'window 20' 21 --preset tiny --window 20
check f32 'qwen2, window 20' 22 --preset tiny --architecture qwen2 --window 20
check f32 'qwen3, yarn, window 20' 23 --preset tiny --architecture qwen3 "${yarn[@]}" --window 20
window=

# Trained weights: of every model in GRETA_MODELS that greta reads, the text that it tells.
for model in ${GRETA_MODELS:+"$GRETA_MODELS"/*.gguf}; do
  "$infer" info --model "$model" >/dev/null 2>&1 || continue
  "$infer" run --model "$model" --prompt '' -n 190 2>/dev/null >"$folder/text"
  "$infer" tokenize --model "$model" --prompt-file "$folder/text" | tr ' ' '\n' >"$folder/ids"
  # The limit is that of a quantised type if there is any: the one of most tensors.
  type=$("$infer" info --model "$model" | awk '$1 == "weights" {
    for (i = 2; i <= NF; ++i) {
      split($i, part, ":")
      weight = part[2] + (part[1] ~ /^i?q/ ? 1e6 : 0)
      if (weight > most) { most = weight; type = part[1] }
    }
    print type }')
  both "$type" "${model##*/}"
done
exit "$failed"
