#!/usr/bin/env bash
# Writers and readers of one database at the same time: none may fail, no writer may starve, and in
# the end the database has what one ingest of it all has.
#
#   tests/soak/crowd.sh [WRITERS [READERS [SECONDS [RUNS]]]]      8 8 600 20 unless told
#
# RUNS of each ingest, which a writer repeats with new ones until its time is over; SECONDS 0: once.
# GRETA_DB_PROGRAM names the program (build/release/bin/greta-db).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=$(realpath "${GRETA_DB_PROGRAM:-build/release/bin/greta-db}")
writers=${1:-8} readers=${2:-8} seconds=${3:-600} runs=${4:-20}
folder=$(mktemp -d)
trap 'touch "$folder/over"; wait; rm -rf "$folder"' EXIT
cd "$folder"

# A trace of two phases, 32 layers, 3 positions; a tenth of the pairs differ.
awk 'BEGIN { for (p = 0; p < 3; ++p) for (l = 0; l < 32; ++l) for (d = 0; d < 2; ++d)
  printf "{\"event\":\"stage_trace\",\"prompt_id\":\"p%d\",\"phase\":\"%s\",\"point\":\"attn_out\"," \
         "\"layer\":%d,\"step\":%d,\"pos_id\":%d,\"sample_n\":256,\"hash\":%d}\n",
         p, d ? "decode0" : "prefill_last", l, d, 37 + p, l * 7 + p + (d && l % 10 == 9) }' >trace

# write NAME: ingests new runs until the time is over.
write() {
  local round=0 run tree traces
  while ((round == 0 || SECONDS < seconds)); do
    tree=in/$1/$((round += 1))
    for ((run = 0; run < runs; ++run)); do
      traces=$tree/2026-03-0$((1 + run % 9))/b3_${1}x${round}x$run/traces
      mkdir -p "$traces"
      ln trace "$traces/p0_trace.jsonl"
    done
    "$program" --db crowd.db ingest -q "$tree" >>"log.$1" 2>&1 || echo "ingest: exit status $?" >>"log.$1"
  done
  echo "$round" >"rounds.$1"
}

# read_on NAME: asks until all writers are done.
read_on() {
  local asked=0 question status
  until [[ -e over ]]; do
    for question in firstfail history; do
      status=0
      "$program" --db crowd.db --format csv "$question" >/dev/null 2>err."$1" || status=$?
      ((status == 0 || status == 1 || status == 3)) || { echo "$question: $status" && cat err."$1"; } >>"log.$1"
      ((asked += 1))
    done
  done
  echo "$asked" >"asked.$1"
}

mkdir in/
"$program" --db crowd.db ingest -q in >/dev/null
ids=() asking=()
for ((i = 1; i <= writers; ++i)); do write "w$i" & ids+=($!); done
for ((i = 1; i <= readers; ++i)); do read_on "r$i" & asking+=($!); done
wait "${ids[@]}"
touch over
((readers == 0)) || wait "${asking[@]}"

echo "crowd: rounds $(cat rounds.* | sort -n | tr '\n' ' ')in $SECONDS s, $(($(cat asked.* 2>/dev/null | paste -sd+))) questions"
failed=$(cat log.* 2>/dev/null | grep -v 'waiting for' || true)
[[ -z $failed ]] || { echo "crowd: failures:" && head -20 <<<"$failed" && exit 1; } >&2

counts() {
  sqlite3 "$1" "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM trace_row),
    (SELECT count(*) FROM source), (SELECT count(*) FROM verdict),
    (SELECT count(*) FROM run_verdict WHERE verdict = 'FAIL')"
}
"$program" --db crowd.db check >/dev/null || { echo "crowd: check fails" >&2 && exit 1; }
"$program" --db serial.db ingest -q in >/dev/null
[[ $(counts crowd.db) == "$(counts serial.db)" ]] ||
  { echo "crowd: $(counts crowd.db) is not $(counts serial.db) of one ingest" >&2 && exit 1; }
echo "crowd: $(counts crowd.db), as one ingest has"
