#!/usr/bin/env bash
# The programs of docs/traces.md, taken from the page, built and run as a reader would: all write one run
# each, and the three have the same rows.
#   page_programs.sh SOURCE_DIR LIBRARY GRETA_DB CC PYTHON    without a PYTHON that runs, two have
set -euo pipefail
source=$1 library=$2 greta_db=$3 cc=$4 python=$5
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-page.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# block LANGUAGE: the first block of it that stands on the page.
block() { awk -v fence='```'"$1" '$0 == fence && !done {on = 1; next} $0 == "```" && on {on = 0; done = 1} on' "$source/docs/traces.md"; }

for language in c python sh; do
  block "$language" >"program.$language"
  lines=$(grep -c . "program.$language")
  ((lines >= 5 && lines <= 10)) || { echo "the program in $language has $lines lines"; exit 1; }
done
mkdir bin
ln -s "$greta_db" bin/greta-db
export PATH=$work/bin:$PATH LD_LIBRARY_PATH=$(dirname "$library")

"$cc" -std=c11 -Wall -Werror -I"$source/include" program.c -o program "$library"
./program
bash -euo pipefail program.sh
engines=(from_c from_shell)
if [[ -x $python ]]; then
  GRETA_TRACE_LIBRARY=$library PYTHONPATH=$source/python "$python" program.python
  engines+=(from_python)
else
  echo "skipped: python3 is not installed, which the page's program in Python needs"
fi

ask() { greta-db --format tsv query "$1" | tail -n +2; }
[[ $(ask "SELECT count(*) FROM run WHERE status = 'complete'") == "${#engines[@]}" ]]
rows="SELECT phase, pos_id, layer, tensor, n, hash, mean FROM trace WHERE experiment = "
for engine in "${engines[@]}"; do
  ask "$rows'$engine' ORDER BY pos_id" >"rows.$engine"
  [[ $(grep -c attn_out "rows.$engine") == 3 ]] || { echo "$engine wrote"; cat "rows.$engine"; exit 1; }
  diff rows.from_c "rows.$engine"
done

# Every example line of the page is taken: a run of them all.
grep -h '^{"event"' "$source/docs/traces.md" |
  sed 's/"rows":3/"rows":1/; s/"experiment":"rollout"/&,"run":"examples"/' >examples.jsonl
greta-db ingest -q examples.jsonl
[[ $(ask "SELECT count(*) FROM trace WHERE run = 'examples'") == 1 ]]
