#!/usr/bin/env bash
# Clean probes of trained models, those in GRETA_MODELS that greta reads: no false alarm in any mode.
#
#   tests/soak/trained.sh [PROMPTS]      100 unless told, of each model and mode
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

infer=$PWD/build/release/bin/greta-infer db=$PWD/build/release/bin/greta-db
if [[ -z ${GRETA_MODELS:-} ]]; then
  echo 'skipped: GRETA_MODELS names no folder of trained models'
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

awk -v prompts="${1:-100}" 'BEGIN {
  count = split("Once upon a time there was little girl named Lily who loved to play with her big red ball" \
    " in the park one day she saw cat dog tree and said hello can I friend yes they ran happy", words, " ")
  seed = 7
  for (i = 1; i <= prompts; i++) {
    text = ""
    seed = seed * 16807 % 2147483647
    for (n = 1 + seed % 60; n > 0; n--) {
      seed = seed * 16807 % 2147483647
      text = text (text == "" ? "" : " ") words[1 + seed % count]
    }
    print "{\"name\":\"t" i "\",\"text\":\"" text "\"}"
  }
}' >"$folder/suite.jsonl"

number=0
for model in "$GRETA_MODELS"/*.gguf; do
  "$infer" info --model "$model" >/dev/null 2>&1 || continue
  number=$((number + 1))
  for mode in as_designed kv_aligned batch_invariant; do
    "$infer" probe --model "$model" --db "$folder/$number.db" --experiment trained --mode "$mode" \
      --suite "$folder/suite.jsonl" >/dev/null
  done
  echo "$(basename "$model"):"
  "$db" --db "$folder/$number.db" --format tsv query \
    'SELECT mode, verdict, strict_verdict, pairs, pass, rounding, divergent, nonfinite FROM run_verdict'
done
((number > 0)) || { echo 'no model in GRETA_MODELS is one that greta reads' >&2; exit 1; }
