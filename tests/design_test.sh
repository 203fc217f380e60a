#!/usr/bin/env bash
# The house in order: docs/design.md stays short and true, headers say what they are, folders stay small.
#
# A header begins with a comment of at least one sentence, which nothing precedes but preprocessor lines, namespaces
# and forward declarations: script/house prints that sentence.
# A folder has at most 40 files. Those that have more may only shrink: lower their number here when they do. The
# folders of tests, and kernels/gpu in the end, may have 60.
# A path in docs/design.md is a word that begins with a folder of the project and a slash, or that ends as a file does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A most_files=(
  [kernels/gpu]=60
)
most_lines=400 most_bytes=32768

status=0
complain() {
  printf '%s\n' "$*" >&2
  status=1
}

lines=$(wc -l <docs/design.md) bytes=$(wc -c <docs/design.md)
((lines <= most_lines)) || complain "docs/design.md has $lines lines, more than $most_lines"
((bytes <= most_bytes)) || complain "docs/design.md has $bytes bytes, more than $most_bytes"

files=$(script/house --files)

# script/house prints a path, then its sentence, indented, if it has one.
while read -r header; do
  complain "$header does not begin with a sentence that says what it is"
done < <(script/house .h | awk '
  /^    / { if (/[.!?]$/) header = ""; next }
  { if (header != "") print header; header = $1 ~ /\.h,?$/ ? $1 : ""; sub(/,$/, "", header) }
  END { if (header != "") print header }')

while read -r count folder; do
  most=${most_files[$folder]:-40}
  [[ $folder != tests && $folder != tests/* ]] || most=60
  ((count <= most)) || complain "$folder has $count files, more than $most"
done < <(awk '{ if (!sub(/\/[^\/]*$/, "")) $0 = "."; ++n[$0] } END { for (folder in n) print n[folder], folder }' <<<"$files")

# Relative links, [text](path), and the documents that documents name.
for page in README.md docs/*.md; do
  while read -r link; do
    [[ -e $(dirname "$page")/$link ]] || complain "$page links to $link, which is not there"
  done < <(grep -oE '\]\([^)#: ]+[)#]' "$page" | sed -E 's/^\]\(//; s/[)#]$//')
  while read -r document; do
    [[ -e $document ]] || complain "$page names $document, which is not there"
  done < <(grep -oE '\bdocs/[a-z_]+\.md\b' "$page" | sort -u)
done

folders=$(awk -F/ 'NF > 1 { print $1 }' <<<"$files" | sort -u | paste -sd '|')
while read -r path; do
  [[ -e $path ]] || complain "docs/design.md names $path, which is not there"
done < <(grep -oE '[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+' docs/design.md | grep -E "^($folders)/" | grep -vE '/(NAME|X)[._]' |
  sed 's/\.$//' | sort -u)
while read -r name; do
  grep -qE "(^|/)${name//./\\.}$" <<<"$files" || complain "docs/design.md names $name, which is not there"
done < <(grep -oE '(^|[^A-Za-z0-9_./-])[A-Za-z0-9_-]+\.(h|cpp|hip|sql|sh|py|js|md|txt|cmake)\b' docs/design.md |
  sed -E 's/^[^A-Za-z0-9_-]//' | grep -vE '^(NAME|X)[._]|^X_' | sort -u)

exit "$status"
