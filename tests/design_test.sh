#!/usr/bin/env bash
# Every file of the tree has its line in docs/design.md, under the heading of its folder or of one above it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=$(
  find common kernels engine trace include python db queries ingest cli tests script packaging docs -type f \
    ! -name CMakeLists.txt ! -path '*/corpus/*' ! -path '*/data/*' ! -path '*/__pycache__/*' \
    ! -name '.*' ! -name '*~' ! -name '*.orig' | sort |
    awk '
      FILENAME == "docs/design.md" {
        if ($0 == "## Every file") inside = 1
        if (!inside) next
        if (/^### /) {
          section = ++n_sections
          headings[section] = substr($0, 5)
        }
        text[section] = text[section] " " $0
        next
      }
      # The longest heading that is the file'"'"'s folder, or above it, has it; else the root has.
      {
        best = 1
        longest = 0
        for (i = 1; i <= n_sections; i++) {
          n = split(headings[i], folders, ", ")
          for (k = 1; k <= n; k++)
            if (index($0, folders[k]) == 1 && length(folders[k]) > longest) {
              longest = length(folders[k])
              best = i
            }
        }
        name = $0
        sub(/.*\//, "", name)
        sub(/\..*/, "", name)
        if (text[best] !~ "(^|[^A-Za-z0-9_])" name "([^A-Za-z0-9_]|$)") print "  " $0 " under " headings[best]
      }' docs/design.md -
)
if [[ -n $missing ]]; then
  printf 'docs/design.md, "Every file", does not name:\n%s\n' "$missing" >&2
  exit 1
fi
