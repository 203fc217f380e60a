#!/usr/bin/env bash
# Kills a probe at random moments: each time the database must be sound, no killed run may have a
# verdict of PASS, and a new run beside it must work.
#
#   tests/soak/kill_probe.sh [KILLS]      50 unless told
#
# GRETA_INFER_PROGRAM and GRETA_DB_PROGRAM name the programs (build/release/...); GRETA_SOAK_SEED
# repeats a sequence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

infer=${GRETA_INFER_PROGRAM:-build/release/bin/greta-infer}
greta_db=${GRETA_DB_PROGRAM:-build/release/bin/greta-db}
kills=${1:-50}
RANDOM=${GRETA_SOAK_SEED:=$((RANDOM))}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
db=$folder/kill.db
fail() {
  echo "kill_probe: $*" >&2
  exit 1
}

"$infer" synth --preset tiny --type f16 --out "$folder/model.gguf" 2>/dev/null
# Bitwise equal on both sides, so that only what is missing can keep a run from PASS.
probe=("$infer" probe --suite b3_66_v2 --mode batch_invariant --layers all
  --phases prefill_last,decode0,decode --decode-steps 8 --model "$folder/model.gguf" --db "$db")

started=$(date +%s%N)
"${probe[@]}" >"$folder/out" 2>&1 || fail "the undisturbed probe failed: $(cat "$folder/out")"
took_ms=$((($(date +%s%N) - started) / 1000000))
echo "kill_probe: $took_ms ms undisturbed; $kills kills, seed $GRETA_SOAK_SEED"

met=0 late=0
while ((met < kills)); do
  "${probe[@]}" >"$folder/out" 2>&1 &
  pid=$!
  delay_ms=$((RANDOM % (took_ms + 1)))
  sleep "$(printf '%d.%03d' $((delay_ms / 1000)) $((delay_ms % 1000)))"
  kill -KILL "$pid" 2>/dev/null || true
  status=0
  wait "$pid" 2>/dev/null || status=$?
  if ((status == 137)); then
    met=$((met + 1))
  else  # it had ended: what it takes was overestimated
    late=$((late + 1))
    took_ms=$((took_ms * 9 / 10 + 1))
    ((late < 10 * kills)) || fail "no kill meets a running probe"
  fi
  "$greta_db" --db "$db" check >"$folder/out" 2>&1 || fail "check fails after kill $met: $(cat "$folder/out")"
  false_pass=$(sqlite3 "$db" "SELECT group_concat(v.run) FROM run_verdict v JOIN run r ON r.name = v.run
    WHERE v.verdict = 'PASS' AND r.status <> 'complete'")
  [[ -z $false_pass ]] || fail "PASS of a killed run: $false_pass"
done
"${probe[@]}" >"$folder/out" 2>&1 || fail "a new run beside the killed ones failed: $(cat "$folder/out")"
last=$(sqlite3 "$db" "SELECT verdict || ' ' || coverage FROM run_verdict WHERE run = (SELECT name FROM run ORDER BY id DESC LIMIT 1)")
[[ $last == 'PASS complete' ]] || fail "the new run beside the killed ones is $last"
sqlite3 "$db" "SELECT 'kill_probe: ' || count(*) || ' runs ' || r.status || ', ' || v.verdict
  FROM run_verdict v JOIN run r ON r.name = v.run GROUP BY r.status, v.verdict"
echo "kill_probe: $met kills survived ($late came after the end)"
