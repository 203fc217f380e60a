#!/usr/bin/env bash
# Compares greta's tokenizers with llama.cpp's, id for id, on real vocabularies: its own published
# cases, random Unicode texts, and lines of llama.cpp's sources and documents (unicode_strings.py),
# each with and without special tokens taken from the text and added to it. Every text must also come
# back from its ids. For a pre-tokenizer whose vocabulary llama.cpp has not, another one is taken.
#
#   tests/peer/tokenizer.sh [TEXTS [SEED]]      1000 and 1 unless told; so many of either kind
#
# Needs a C compiler, python3 and
#   GRETA_LLAMA_LIBS       a folder with llama.cpp's shared libraries
#   GRETA_LLAMA_SRC        llama.cpp's sources of the same version: headers, models/ggml-vocab-*
#   GRETA_TOKENS_PROGRAM   greta_tokens, if it is built already
# Exit status: 0 all equal, 1 something differs, 2 something is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

texts=${1:-1000}
seed=${2:-1}

fail() {
  echo "tokenizer: $*" >&2
  exit 2
}

[[ -d ${GRETA_LLAMA_LIBS:-} ]] || fail "GRETA_LLAMA_LIBS names no folder"
[[ -d ${GRETA_LLAMA_SRC:-} ]] || fail "GRETA_LLAMA_SRC names no folder"
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-tokens.XXXXXX")
trap 'rm -rf "$work"' EXIT
tokens=${GRETA_TOKENS_PROGRAM:-build/release/tests/greta_tokens}
if [[ -z ${GRETA_TOKENS_PROGRAM:-} ]]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target greta_tokens >/dev/null
fi
[[ -x $tokens ]] || fail "no program at $tokens"

peer=$work/tokens_peer
tests/peer/build_llama tokens_peer "$peer"
export LD_LIBRARY_PATH=$GRETA_LLAMA_LIBS${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

differs=0
# compare WHAT OURS THEIRS: prints how many lines agree and the first that do not.
compare() {
  local all equal
  all=$(wc -l <"$3")
  equal=$(paste -d '|' "$2" "$3" | awk -F '|' '$1 == $2' | wc -l)
  echo "  $1: $equal of $all equal"
  if [[ $equal -ne $all || $all -eq 0 || $(wc -l <"$2") -ne $all ]]; then
    diff "$2" "$3" | head -n 6 | cut -c 1-160 || true
    differs=1
  fi
}

# ours MODEL TEXTS [--special]: greta's ids in $work/ours, its speed in $work/speed.
ours() {
  local status=0
  "$tokens" "$@" >"$work/ours" 2>"$work/speed" || status=$?
  [[ $status -le 1 ]] || fail "$(cat "$work/speed")"
  if [[ $status -eq 1 ]]; then
    tail -n 1 "$work/speed"
    differs=1
  fi
}

python3 tests/peer/unicode_strings.py "$texts" "$seed" >"$work/random"
find "$GRETA_LLAMA_SRC" -name .git -prune -o -type f \
  \( -name '*.md' -o -name '*.py' -o -name '*.cpp' -o -name '*.inp' \) -print0 | sort -z |
  xargs -0 python3 tests/peer/unicode_strings.py "$texts" "$seed" >"$work/real"

# same_ids MODEL: on the random and the real texts.
same_ids() {
  local kind special
  for kind in random real; do
    for special in "" --special; do
      ours "$1" "$work/$kind" $special
      "$peer" "$1" "$work/$kind" $special >"$work/theirs"
      compare "$kind texts${special:+, special tokens taken}" "$work/ours" "$work/theirs"
    done
  done
  sed -n 's/^/  /; /MB\/s/p' "$work/speed"
}

for name in llama-bpe llama-spm qwen2 deepseek-llm gpt-2; do
  model=$GRETA_LLAMA_SRC/models/ggml-vocab-$name.gguf
  [[ -r $model && -r $model.inp && -r $model.out ]] || fail "no $model with .inp and .out"
  echo "$name"
  ours "$model" "$model.inp"
  sed 's/^ *//; s/ *$//' "$model.out" >"$work/theirs"
  # The last case ends with a separator, too: what follows is none.
  head -n "$(wc -l <"$work/theirs")" "$work/ours" >"$work/cases"
  compare "published cases" "$work/cases" "$work/theirs"
  same_ids "$model"
done
for case in smollm:gpt-2 tekken:llama-bpe default:gpt-2 default:qwen2; do
  echo "${case%:*}, vocabulary of ${case#*:}"
  python3 tests/peer/with_pre_tokenizer.py \
    "$GRETA_LLAMA_SRC/models/ggml-vocab-${case#*:}.gguf" "${case%:*}" "$work/vocabulary.gguf"
  same_ids "$work/vocabulary.gguf"
done
echo "none stated, vocabulary of gpt-neox"
same_ids "$GRETA_LLAMA_SRC/models/ggml-vocab-gpt-neox.gguf"
exit $differs
