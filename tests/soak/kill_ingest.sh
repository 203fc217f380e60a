#!/usr/bin/env bash
# Kills an ingest at random moments: each time the database must be sound, and the next ingest must
# leave what an undisturbed one does.
#
#   tests/soak/kill_ingest.sh [KILLS]      50 unless told
#
# GRETA_DB_PROGRAM names the program (build/release/bin/greta-db); GRETA_SOAK_SEED repeats a sequence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=${GRETA_DB_PROGRAM:-build/release/bin/greta-db}
kills=${1:-50}
RANDOM=${GRETA_SOAK_SEED:=$((RANDOM))}
if [[ ! -x $program ]]; then
  echo "kill_ingest: no program at $program: build it, or name it in GRETA_DB_PROGRAM" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/artifacts_remote

# line PROMPT PHASE STEP POSITION LAYER HASH [MORE]
line() {
  printf '{"event":"stage_trace","prompt_id":"%s","phase":"%s","point":"attn_out","layer":%d,"step":%d,"pos_id":%d,"sample_n":256,"hash":%s%s}\n' \
    "$1" "$2" "$5" "$3" "$4" "$6" "${7:-}"
}

make_run() {
  local run=$tree/2026-02-0$((1 + $1 % 9))/b3_$((60 + $1)) layer
  mkdir -p "$run/traces" "$run/prefill"
  for layer in {0..31}; do
    line p0 prefill_last 0 37 "$layer" "$((layer * 7 + $1))"
    line p0 decode0 1 37 "$layer" "$((layer * 7 + $1 + layer / 30))"
    line p1 decode0 1 38 "$layer" 18446744073709551615 ',"sample":[0.5,-1,2]'
  done >"$run/traces/p0_trace.jsonl"
  awk '{ for (i = 0; i < 60; i++) { s = $0; sub(/"pos_id":[0-9]+/, "\"pos_id\":" 100 + i, s); print s } }' \
    "$run/traces/p0_trace.jsonl" | gzip >"$run/traces/p2_trace.jsonl.gz"
  printf '{"git_commit":"abc%d","dtype":"bf16"}\n' "$1" >"$run/config.json"
  printf '# B3.%d\n\nRESULT: PASS\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' "$1" >"$run/report.md"
  : >"$run/prefill/logits.jsonl.gz"
  printf 'not a line\n' >"$run/prefill/p3_trace.jsonl"
  tar -C "$run" -czf "$run/runs.tgz" traces/p0_trace.jsonl config.json
}

for i in {0..11}; do make_run "$i"; done

# Every table, with ids: what was killed and finished must equal what never stopped.
dump() { sqlite3 "$1" .dump | sha256sum; }
ingest() { "$program" --db "$1" ingest "$tree" >"$folder/out" 2>&1 || [[ $? -eq 1 ]]; }

started=$(date +%s%N)
ingest "$folder/whole.db"
took_ms=$((($(date +%s%N) - started) / 1000000))
wanted=$(dump "$folder/whole.db")
rows=$(sqlite3 "$folder/whole.db" 'SELECT count(*) FROM trace_row')
echo "kill_ingest: $rows rows in $took_ms ms undisturbed; $kills kills, seed $GRETA_SOAK_SEED"

early=0
for ((kill = 1; kill <= kills; ++kill)); do
  db=$folder/killed.db
  rm -f "$db"*
  # One to three kills before an ingest may finish.
  for ((again = RANDOM % 3; again >= 0; --again)); do
    "$program" --db "$db" ingest "$tree" >/dev/null 2>&1 &
    pid=$!
    delay_ms=$((RANDOM % (took_ms * 2 / 3 + 1)))
    sleep "$(printf '%d.%03d' $((delay_ms / 1000)) $((delay_ms % 1000)))"
    kill -KILL "$pid" 2>/dev/null || early=$((early + 1))
    wait "$pid" 2>/dev/null || true
    if [[ -s $db ]] && ! sound=$(sqlite3 "$db" 'PRAGMA integrity_check' 2>&1) || [[ ${sound:-ok} != ok ]]; then
      echo "kill_ingest: kill $kill left a damaged database: $sound" >&2
      exit 1
    fi
  done
  if ! ingest "$db"; then
    echo "kill_ingest: the ingest after kill $kill failed:" >&2
    cat "$folder/out" >&2
    exit 1
  fi
  if ! "$program" --db "$db" check >"$folder/out" 2>&1; then
    echo "kill_ingest: check fails after kill $kill:" >&2
    cat "$folder/out" >&2
    exit 1
  fi
  if [[ $(dump "$db") != "$wanted" ]]; then
    echo "kill_ingest: after kill $kill the database differs from an undisturbed one:" >&2
    diff <(sqlite3 "$folder/whole.db" .dump) <(sqlite3 "$db" .dump) | head -20 >&2 || true
    exit 1
  fi
done
echo "kill_ingest: $kills rounds ended like an undisturbed ingest ($early kills came after its end)"
