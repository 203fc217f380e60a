#!/usr/bin/env bash
# Kills commands that write, at random moments. After each kill the file is sound and has all that
# was committed; the same command, repeated, leaves what one that nobody killed leaves.
#
#   tests/soak/kill.sh [KILLS [WHAT...]]     1000 of ingest merge migration probe unless told
#
# GRETA_DB_PROGRAM and GRETA_INFER_PROGRAM name the programs (build/release/bin/...);
# GRETA_SOAK_SEED repeats a sequence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

greta_db=$(realpath "${GRETA_DB_PROGRAM:-build/release/bin/greta-db}")
infer=$(realpath "${GRETA_INFER_PROGRAM:-build/release/bin/greta-infer}")
old_file=$PWD/tests/data/version_8.db.gz
old_version=8
new_version=$(sed -n 's/.*kSchemaVersion = \([0-9]*\);/\1/p' db/schema.h)
kills=${1:-1000}
shift || true
((${#} > 0)) || set -- ingest merge migration probe
RANDOM=${GRETA_SOAK_SEED:=$((RANDOM))}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() {
  echo "kill $what: $* (seed $GRETA_SOAK_SEED)" >&2
  exit 1
}

# line PROMPT PHASE STEP POSITION LAYER HASH [MORE]
line() {
  printf '{"event":"stage_trace","prompt_id":"%s","phase":"%s","point":"attn_out","layer":%d,"step":%d,"pos_id":%d,"sample_n":256,"hash":%s%s}\n' \
    "$1" "$2" "$5" "$3" "$4" "$6" "${7:-}"
}

make_run() {
  local run=in/2026-02-0$((1 + $1 % 9))/b3_$((60 + $1)) layer
  mkdir -p "$run/traces" "$run/prefill"
  for layer in {0..11}; do
    line p0 prefill_last 0 37 "$layer" "$((layer * 7 + $1))"
    line p0 decode0 1 37 "$layer" "$((layer * 7 + $1 + layer / 10))"
    line p1 decode0 1 38 "$layer" 18446744073709551615 ',"sample":[0.5,-1,2]'
  done >"$run/traces/p0_trace.jsonl"
  awk '{ for (i = 0; i < 3; i++) { s = $0; sub(/"pos_id":[0-9]+/, "\"pos_id\":" 100 + i, s); print s } }' \
    "$run/traces/p0_trace.jsonl" | gzip >"$run/traces/p2_trace.jsonl.gz"
  printf '{"git_commit":"abc%d","dtype":"bf16"}\n' "$1" >"$run/config.json"
  printf '# B3.%d\n\nRESULT: PASS\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' "$1" >"$run/report.md"
  : >"$run/prefill/logits.jsonl.gz"
  printf 'not a line\n' >"$run/prefill/p3_trace.jsonl"
  tar -C "$run" -czf "$run/runs.tgz" traces/p0_trace.jsonl config.json
}

# prepare WHAT: the file as it is before the command, start.db, if there is one.
prepare() {
  rm -f start.db*
  case $1 in
    merge) "$greta_db" --db start.db ingest -q in/2026-02-01 in/2026-02-02 || true ;;
    migration) gunzip -c "$old_file" >start.db ;;
  esac >/dev/null
}

# command WHAT: sets `command`, which writes to killed.db.
command() {
  case $1 in
    ingest) command=("$greta_db" --db killed.db ingest -q in) ;;
    merge) command=("$greta_db" --db killed.db merge other.db) ;;
    migration) command=("$greta_db" upgrade killed.db) ;;
    # Bitwise equal on both sides, so that only what is missing can keep a run from PASS.
    probe) command=("$infer" probe --mode batch_invariant --layers all --phases all --decode-steps 8
      --tokens "1 2 3" --model model.gguf --db killed.db) ;;
  esac
}

fresh() {
  rm -f killed.db*
  [[ ! -e start.db ]] || cp start.db killed.db
}

# The command, to its end: some of the input is quarantined.
finish() { "${command[@]}" >out 2>&1 || [[ $? -eq 1 ]]; }

# Rows of the public views, sorted. Of probes the last one's, without its name: killed ones stay.
content() {
  if [[ $what == probe ]]; then
    sqlite3 killed.db "SELECT verdict, numeric_verdict, coverage, pairs FROM run_verdict
        WHERE run = (SELECT name FROM run ORDER BY id DESC LIMIT 1);
      SELECT prompt, phase, step, pos_id, layer, tensor, hash FROM trace
        WHERE run = (SELECT name FROM run ORDER BY id DESC LIMIT 1)" | sort
    return
  fi
  local view selects=
  for view in trace pair first_fail run_verdict failure_breakdown propagation kv_alignment \
    lm_head_delta history report_conflict; do
    selects+="SELECT '$view', * FROM $view; "
  done
  sqlite3 killed.db "$selects" | sort  # one process: it resolves the views once
}

# What a kill must not take: counts of contents and rows, if it is a file of today.
committed() {
  sqlite3 killed.db "SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM trace_row)" 2>/dev/null || echo "0|0"
}

check_sound() {
  [[ -s killed.db ]] || return 0
  [[ $(sqlite3 killed.db 'PRAGMA integrity_check' 2>&1) == ok ]] || fail "a damaged file after kill $met"
  [[ $(sqlite3 killed.db 'SELECT count(*) FROM sqlite_schema') != 0 ]] || return 0
  if [[ $what == migration ]]; then  # a check refuses one of before
    local version
    version=$(sqlite3 killed.db 'PRAGMA user_version')
    ((version == old_version || version == new_version)) || fail "a file of version $version"
    return 0
  fi
  "$greta_db" --db killed.db check >out 2>&1 || fail "check after kill $met: $(cat out)"
  local wrong
  wrong=$(sqlite3 killed.db "SELECT count(*) FROM run_verdict v JOIN run r ON r.name = v.run
    WHERE v.verdict = 'PASS' AND r.status IN ('running', 'failed')")
  ((wrong == 0)) || fail "PASS of a killed run"
}

# kill_once: starts the command, and kills it at a moment of its time.
kill_once() {
  local before after pid delay_ms status=0
  before=$(committed)
  "${command[@]}" >/dev/null 2>&1 &
  pid=$!
  delay_ms=$((RANDOM % (took_ms + 1)))
  sleep "$(printf '%d.%03d' $((delay_ms / 1000)) $((delay_ms % 1000)))"
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || status=$?
  if ((status == 137)); then met=$((met + 1)); else late=$((late + 1)); fi
  check_sound
  after=$(committed)
  ((${after%|*} >= ${before%|*} && ${after#*|} >= ${before#*|})) || fail "$before became $after"
}

soak() {
  what=$1 met=0 late=0
  local wanted rounds=0 again
  prepare "$what"
  command "$what"
  fresh
  local started
  started=$(date +%s%N)
  finish || fail "the undisturbed command: $(cat out)"
  took_ms=$((($(date +%s%N) - started) / 1000000))
  wanted=$(content)
  [[ -n $wanted ]] || fail "nothing to compare"
  while ((met < share && late < 4 * share + 20)); do
    fresh
    for ((again = RANDOM % 3; again >= 0; --again)); do kill_once; done
    finish || fail "the command after kill $met: $(cat out)"
    [[ $(content) == "$wanted" ]] ||
      { diff <(echo "$wanted") <(content) | head -20 >&2; fail "another content after kill $met"; }
    rounds=$((rounds + 1))
  done
  ((met > 0)) || fail "no kill met it"
  echo "kill $what: $met kills in $rounds rounds, $late more came after its end ($took_ms ms undisturbed)"
}

for i in {0..3}; do make_run "$i"; done
"$greta_db" --db other.db ingest -q in >/dev/null || true
"$infer" synth --type q8_0 --dim 128 --heads 4 --kv-heads 2 --head-dim 32 --ffn 256 --vocab 512 \
  --out model.gguf >/dev/null 2>&1
share=$(((kills + $# - 1) / $#))
for each in "$@"; do soak "$each"; done
