#!/usr/bin/env bash
# One model and the same tokens in greta-infer, llama.cpp and PyTorch, in one database: what `compare` says of
# any two of them, as Markdown; then faults injected into greta-infer, held against clean runs of the other two:
# each must be found at its tensor and layer. Exits 1 when two engines differ by more than rounding, an engine
# has no verdict of its own, or a fault is not found where it is.
#
#   GRETA_LLAMA_LIBS=FOLDER GRETA_LLAMA_SRC=CLONE tests/peer/engines.sh [--build DIR] [--db FILE] [MODEL.gguf...]
#
# GRETA_LLAMA_LIBS and GRETA_LLAMA_SRC: as for compare.sh. GRETA_TORCH_PYTHON is a Python with torch and
# numpy (python3, else /usr/bin/python3). The models' weights are F32; without a model, those of GRETA_MODELS
# and a synthetic one of 1B (4.4 GB in the temporary folder). DIR is a build with greta-infer, greta-db and
# greta_trace; without it, build/release is brought up to date. FILE keeps the database.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "tests/peer/engines.sh: $*" >&2
  exit 2
}

build='' db=''
while (($# > 0)); do
  case $1 in
    --build) build=${2:?--build wants a folder} && shift 2 ;;
    --db) db=${2:?--db wants a file} && shift 2 ;;
    -*) die "unknown argument $1" ;;
    *) break ;;
  esac
done
python=${GRETA_TORCH_PYTHON:-}
for candidate in $python python3 /usr/bin/python3; do
  "$candidate" -c 'import numpy, torch' 2>/dev/null && python=$candidate && break
done
[[ -n $python ]] || die "no Python with torch and numpy: set GRETA_TORCH_PYTHON"
if [[ -z $build ]]; then
  build=build/release
  cmake --preset release >/dev/null
  cmake --build --preset release --target greta-infer greta-db greta_trace >/dev/null
fi
infer=$build/bin/greta-infer greta_db=$build/bin/greta-db
[[ -x $infer && -x $greta_db ]] || die "no $infer or no $greta_db"

folder=$(mktemp -d "${TMPDIR:-/tmp}/greta-engines.XXXXXX")
trap 'rm -rf "$folder"' EXIT
tests/peer/build_llama_trace "$folder/llama_trace" "$build"
export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
GRETA_TRACE_LIBRARY=$(realpath "$build")/trace/libgreta_trace.so
export GRETA_TRACE_LIBRARY
db=${db:-$folder/engines.db}
failed=0

# What all three trace; greta-infer has more points, which are copies of these or inside of its attention.
tensors=$("$python" -c 'import greta.torch; print(",".join(greta.torch.TENSORS))')

# ids SEED COUNT: token ids below 500, comma-separated. Not rand(): some awks seed it themselves.
ids() {
  awk -v x="$1" -v n="$2" 'BEGIN {
    while (n-- > 0) { x = x * 16807 % 2147483647; printf "%s%d", separator, x % 500; separator = "," } }'
}
prompts=(one="$(ids 1 1)" seven="$(ids 2 7)" long="$(ids 3 33)")
tokens=()
for prompt in "${prompts[@]}"; do tokens+=(--tokens "$prompt"); done
for prompt in "${prompts[@]}"; do
  printf '{"name": "%s", "tokens": [%s]}\n' "${prompt%%=*}" "${prompt#*=}"
done >"$folder/suite"

# greta MODEL RUN [OPTION...]: a probe of greta-infer.
greta() {
  local model=$1 run=$2
  shift 2
  "$infer" probe --model "$model" --db "$db" --suite "$folder/suite" --decode-steps 0 --layers all \
    --tensors "$tensors" --phases prefill_last,decode0 --model-sha256 --experiment greta-infer \
    --run-name "$run" "$@" >/dev/null
}

ask() { "$greta_db" --db "$db" query --format csv "$1" | tail -n +2 | tr -d '\r'; }

# between A B: how two runs compare, as a row of a table.
between() {
  local pairs equal rounding beyond lacking greatest verdict
  IFS=, read -r verdict pairs equal rounding beyond lacking greatest < <(ask "
    SELECT numeric_verdict, pairs, match, rounding, divergent + unknown + nonfinite + incomparable,
      only_a + only_b,
      (SELECT printf('%.1e', max(rel_l2)) FROM run_diff d WHERE d.run_a = v.run_a AND d.run_b = v.run_b)
    FROM diff_verdict v WHERE run_a = '$1' AND run_b = '$2'")
  [[ $verdict == PASS && $beyond == 0 && $lacking == 0 ]] || failed=1
  echo "| ${1#*/} and ${2#*/} | $verdict | $pairs | $equal | $rounding | $beyond | $greatest |"
}

own() {
  local verdict coverage pairs
  IFS=, read -r verdict coverage pairs < <(ask "
    SELECT numeric_verdict, coverage, pairs FROM run_verdict WHERE run = '$1'")
  [[ $verdict == PASS && $coverage == complete ]] || failed=1
  echo "| ${1#*/}, prefill and decode | $verdict | $pairs | | | | |"
}

# engines MODEL NAME: runs NAME/greta-infer, NAME/llama.cpp and NAME/pytorch, and how they compare.
engines() {
  local model=$1 name=$2 sha engine
  sha=$(sha256sum "$model" | cut -d ' ' -f 1)
  greta "$model" "$name/greta-infer"
  "$folder/llama_trace" --model "$model" --db "$db" --f32 --model-sha256 "$sha" --run-name "$name/llama.cpp" \
    "${tokens[@]}" >/dev/null
  "$python" tests/peer/torch_trace.py "$model" --db "$db" --model-sha256 "$sha" --run-name "$name/pytorch" \
    "${tokens[@]}" >/dev/null
  printf '\n%s\n\n| | numeric verdict | rows | same bits | rounding | beyond | greatest rel_l2 |\n' "$name"
  echo '|---|---|---|---|---|---|---|'
  for engine in greta-infer llama.cpp pytorch; do own "$name/$engine"; done
  between "$name/greta-infer" "$name/llama.cpp"
  between "$name/greta-infer" "$name/pytorch"
  between "$name/llama.cpp" "$name/pytorch"
}

# fault MODEL NAME FAULT TENSOR LAYER: of a fault in both phases, what greta-infer's own verdict says, and where
# it is found against the other two engines.
fault() {
  local model=$1 name=$2 fault=$3 tensor=$4 layer=$5 run=$2/$3 own found place
  greta "$model" "$run" --inject "$fault@both:layer=$layer"
  own=$(ask "SELECT numeric_verdict FROM run_verdict WHERE run = '$run'")
  place=()
  for engine in llama.cpp pytorch; do
    found=$(ask "SELECT numeric_tensor || ' of layer ' || numeric_layer FROM diff_verdict
      WHERE run_a = '$name/$engine' AND run_b = '$run'")
    [[ $found == "$tensor of layer $layer" ]] || failed=1
    place+=("${found:-not found}")
  done
  echo "| $fault | $own | ${place[0]} | ${place[1]} |"
}

# All faults of a layer that greta-infer has in one prompt. lm_head_route is no more than rounding. Where a fault
# shows is the first of the points that all three engines trace.
faults() {
  local model=$1 name=$2 layer=2
  printf '\n%s, faults in both phases of greta-infer, in layer %s\n\n' "$name" "$layer"
  echo '| fault | its own numeric verdict | against llama.cpp | against PyTorch |'
  echo '|---|---|---|---|'
  while read -r kind tensor; do
    fault "$model" "$name" "$kind" "$tensor" "$layer"
  done <<'LIST'
rmsnorm_eps attn_norm_out
quant_scale q_pre_rope
rope_pos_off_by_one q_post_rope
rope_theta q_post_rope
rope_pairing q_post_rope
kv_wrong_slot attn_out
stale_kv_tail attn_out
k_cache_spoiled attn_out
kv_head_stride attn_out
mask_off_by_one attn_out
gqa_head_mapping attn_out
softmax_no_max attn_out
v_layout_transposed attn_out
fp16_accumulate wo_out
race mlp_out
LIST
}

models=("$@")
if ((${#models[@]} == 0)); then
  for model in ${GRETA_MODELS:+"$GRETA_MODELS"/*.gguf}; do
    "$infer" info --model "$model" 2>/dev/null | grep -Eq '^weights +f32:[0-9]+$' && models+=("$model")
  done
  "$infer" synth --preset 1b --type f32 --out "$folder/synthetic-1b.gguf" 2>/dev/null
  models+=("$folder/synthetic-1b.gguf")
fi
for model in "${models[@]}"; do
  name=$(basename "$model" .gguf)
  engines "$model" "$name"
done
faults "${models[0]}" "$(basename "${models[0]}" .gguf)"
printf '\nPyTorch with and without greta.torch, tokens per second of one core\n\n'
for model in "${models[@]}"; do
  "$python" tests/peer/torch_trace.py "$model" --db "$folder/bench.db" --bench 8 8 --threads 1 --repeat 2 |
    sed "s/^/- $(basename "$model" .gguf), /"
done
exit "$failed"
