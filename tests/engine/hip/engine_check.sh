#!/usr/bin/env bash
# The engine on this machine's GPU, with a build that has its kernels: every fault is found, clean
# probes pass, GPU and CPU agree, and compute-sanitizer, where it is installed, finds nothing.
#
#   tests/engine/hip/engine_check.sh BUILD [DATABASE]     DATABASE: where the probes are recorded
set -euo pipefail
build=${1:?"usage: engine_check.sh BUILD [DATABASE]"}
infer=$build/bin/greta-infer greta_db=$build/bin/greta-db
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-gpu-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
database=${2:-$work/check.db}

step() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    echo "ok      $name"
  else
    tail -n 30 "$work/log"
    echo "FAILED  $name"
    exit 1
  fi
}

types=(f32 f16 bf16 q8_0 q4_0 q4_k_m q5_k_m q6_k q4_1 q5_0 q5_1 iq4_nl q2_k q3_k)
step 'tests of the engine' "$build/tests/engine_hip_tests"
for type in "${types[@]}"; do
  "$infer" synth --preset tiny --type "$type" --out "$work/$type.gguf" >/dev/null 2>&1
done
for architecture in qwen2 qwen3; do
  "$infer" synth --preset tiny --architecture "$architecture" --rope-scaling yarn --original-context 512 \
    --out "$work/$architecture.gguf" >/dev/null 2>&1
done
models=("${types[@]}" qwen2 qwen3)
for model in "${models[@]}"; do
  for mode in batch_invariant as_designed kv_aligned; do
    for backend in hip cpu; do
      step "probe of $model, $mode on $backend" "$infer" probe --suite b3_66_v2 \
        --model "$work/$model.gguf" --mode "$mode" --backend "$backend" --db "$database" \
        --experiment "${model}_$backend" --date 2000-01-01
    done
  done
done
if [[ -x $greta_db ]]; then
  for model in "${models[@]}"; do
    divergent=$("$greta_db" --db "$database" query --format csv "
      SELECT count(*), sum(class IS 'DIVERGENT' OR class IS 'UNKNOWN') FROM run_diff
      -- not of decoded tokens, which rounding may choose
      WHERE pos_id < (SELECT json_array_length(p.token_ids) FROM prompt p JOIN run r ON r.id = p.run_id
                      WHERE r.name = run_a AND p.name = prompt)
        AND run_a = '2000-01-01/${model}_cpu/as_designed'
        AND run_b = '2000-01-01/${model}_hip/as_designed'" | tail -n 1 | tr -d '\r')
    step "rows of $model that differ between CPU and GPU, and more than by rounding: $divergent" \
      test "${divergent#*,}" = 0
  done
fi
for mode in batch_invariant as_designed kv_aligned; do
  step "probe of many lengths, $mode" "$infer" probe --model "$work/q4_k_m.gguf" \
    --mode "$mode" --backend hip --db "$database" --experiment lengths
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    step "compute-sanitizer, $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$infer" probe --model "$work/q4_k_m.gguf" --backend hip --no-db --suite b3_66_v2 --decode-steps 4
  done
fi
step 'detection matrix' "$build/tests/detection_matrix" --backend hip --late all --clean "${GRETA_CLEAN:-200}"
tail -n 2 "$work/log"
