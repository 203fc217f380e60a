#!/usr/bin/env bash
# Clean probes of calibrated models: no false alarm.
#
#   tests/soak/calibrated.sh [MODELS]      4 unless told; 480 prompts of each
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

infer=$PWD/build/release/bin/greta-infer db=$PWD/build/release/bin/greta-db
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# 30 prompts of random tokens, 1 to 400 of them
prompts() {
  awk -v seed="$1" 'BEGIN {
    srand(seed)
    for (i = 1; i <= 30; i++) {
      n = int(exp(rand() * log(400))) + 1
      line = "{\"name\":\"r" i "\",\"tokens\":["
      for (t = 0; t < n; t++) line = line (t ? "," : "") int(rand() * 256)
      print line "]}"
    }
  }'
}

types=(q4_k_m q8_0 f32 f16 q5_k_m q4_0 bf16 q6_k q3_k q5_0 q4_1 q2_k iq4_nl q5_1)
shapes=('' '--heads 2 --kv-heads 1 --head-dim 64 --dim 128 --ffn 320'
  '--heads 1 --kv-heads 1 --head-dim 64 --dim 128 --ffn 256' '--heads 3 --kv-heads 3 --head-dim 32 --dim 96 --ffn 200')
for ((seed = 1; seed <= ${1:-4}; seed++)); do
  # shellcheck disable=SC2086  # a shape is several words
  "$infer" synth --force --seed "$seed" --out m.gguf --type "${types[seed % ${#types[@]}]}" \
    ${shapes[seed % 4]} >/dev/null 2>&1
  "$infer" calibrate --model m.gguf --db soak.db >/dev/null
  prompts "$seed" >s.jsonl
  "$infer" sweep --model m.gguf --db soak.db --experiment "model_$seed" --suite s.jsonl \
    --decode-steps 1 --max-runs 16 --format tsv --vary batch=7,200 \
    --vary threads=1,2 --vary route.attention=online,two_pass --vary route.qkv=dot,gemm >matrix ||
    { cat matrix; echo "a false alarm, model of seed $seed" >&2; exit 1; }
done
"$db" --db soak.db query "SELECT count(*) AS runs, sum(pairs) AS pairs, sum(divergent) AS alarms,
  (SELECT count(*) FROM prompt) AS prompts FROM run_verdict"
