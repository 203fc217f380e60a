#!/usr/bin/env bash
# Peak memory of an ingest must stay under 200 MB whatever the input size and its lines.
#
#   tests/soak/big_file.sh [MEGABYTES]     1000 unless told
#
# GRETA_DB_PROGRAM names the program (build/release/bin/greta-db).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=${GRETA_DB_PROGRAM:-build/release/bin/greta-db}
megabytes=${1:-1000}
limit_kb=$((200 * 1000))
if [[ ! -x $program ]]; then
  echo "big_file: no program at $program: build it, or name it in GRETA_DB_PROGRAM" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# lines KIND: stage_trace lines without end
lines() {
  awk -v kind="$1" '
    BEGIN {
      for (i = 0; i < 4096; i++) sample = sample (i ? "," : "") (i % 7) / 8
      for (i = 0; i < 1024; i++) filler = filler "x"
      for (i = 0; i < 256; i++) kilobytes = kilobytes filler
      while (1) {
        n++
        head = "{\"event\":\"stage_trace\",\"prompt_id\":\"p" n % 7 "\",\"phase\":\"" (n % 2 ? "prefill" : "decode") \
          "\",\"point\":\"attn_out\",\"layer\":" n % 32 ",\"step\":" n % 2 ",\"pos_id\":" int(n / 64) % 2000000 \
          ",\"hash\":" n
        if (kind == "rows") print head ",\"sample_n\":256,\"min\":-1.5,\"max\":2.25,\"mean\":0.125,\"abs_sum\":300.5}"
        if (kind == "samples") print head ",\"sample\":[" sample "]}"
        if (kind == "extra") print head ",\"note\":\"" n filler filler "\"}"
        if (kind == "long") print head ",\"note\":\"" n kilobytes "\"}"
        if (kind == "bad") print "{\"event\":\"unknown\",\"n\":" n ",\"note\":\"" kilobytes "\"}"
        if (kind == "torn") print substr(head, 2)
      }
    }' 2>/dev/null || true
}

# peak NAME FILE: ingests FILE and judges the peak of its resident memory.
peak() {
  local name=$1 file=$2 started=$SECONDS status=0 peak_kb bytes
  bytes=$(stat -c %s "$file")
  rm -f "$folder"/g.db*
  /usr/bin/time -f '%M' -o "$folder/peak" "$program" --db "$folder/g.db" ingest "$file" >"$folder/out" 2>&1 || status=$?
  peak_kb=$(tail -1 "$folder/peak")
  printf 'big_file: %-10s %5d MB in, peak %4d MB, %3d s' "$name" $((bytes / 1000000)) $((peak_kb / 1000)) $((SECONDS - started))
  if ((status > 1)); then
    printf ', FAILED with status %d\n' "$status"
    cat "$folder/out"
    failed=1
  elif ((peak_kb > limit_kb)); then
    printf ', OVER 200 MB\n'
    failed=1
  else
    printf '\n'
  fi
}

script/setup time
run=$folder/2026-02-07/b3_66/traces
mkdir -p "$run"
for kind in rows samples extra long bad torn; do
  size=$megabytes
  [[ $kind != torn ]] || size=$((megabytes / 4))  # each line is a finding
  lines "$kind" | head -c "${size}M" >"$run/${kind}_trace.jsonl" || true
  peak "$kind" "$run/${kind}_trace.jsonl"
  if [[ $kind == rows ]]; then
    gzip -1 "$run/${kind}_trace.jsonl"
    peak "$kind.gz" "$run/${kind}_trace.jsonl.gz"
  fi
  rm -f "$run"/*
done

# A table that judges pairs without end.
awk 'BEGIN {
  print "PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE"
  for (i = 0; i < 400000; i++) print "p" i % 7 "\t1\t" i "\t" i % 32 "\tattn_out\tATTN_OUT_DRIFT\tX"
}' >"$run/pairs.tsv"
peak pairs "$run/pairs.tsv"
rm -f "$run"/*

# One line of 16 MB, far longer than any that a trace has. (A line may be twice that; one full of small
# numbers that belong to no sample then takes up to 400 MB.)
{
  printf '{"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"x_in","layer":0,"pos_id":1,"x":[1'
  yes ',1' | tr -d '\n' | head -c 16000000 || true
  printf ']}\n'
} >"$run/line_trace.jsonl"
peak "one line" "$run/line_trace.jsonl"
exit "$failed"
