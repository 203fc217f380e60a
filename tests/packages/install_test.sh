#!/usr/bin/env bash
# `cmake --install` of a build: every file at its place below DESTDIR, and nothing left of it when the files
# of its manifest are removed.
#
#   install_test.sh BUILD VERSION
set -euo pipefail
build=$1 version=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

DESTDIR=$work/root cmake --install "$build" --prefix /opt/greta >/dev/null
cp "$build/install_manifest.txt" "$work/manifest"
prefix=$work/root/opt/greta

expected='bin/greta-db bin/greta-infer
share/man/man1/greta-db.1 share/man/man1/greta-infer.1
share/bash-completion/completions/greta-db share/bash-completion/completions/greta-infer
share/zsh/site-functions/_greta-db share/zsh/site-functions/_greta-infer
share/fish/vendor_completions.d/greta-db.fish share/fish/vendor_completions.d/greta-infer.fish'
found=$(cd "$prefix" && find . -type f -o -type l | sed 's|^\./||' | sort)
[[ $found == "$(tr -s ' ' '\n' <<<"$expected" | sort)" ]] || fail "installed: $found"
outside=$(find "$work/root" -type f -not -path "$prefix/*")
[[ -z $outside ]] || fail "outside of the prefix: $outside"

[[ $("$prefix/bin/greta-db" --version) == "greta-db $version "* ]] || fail "greta-db is not $version"
[[ $("$prefix/bin/greta-infer" --version) == "greta-infer $version "* ]] || fail "greta-infer is not $version"

sed "s|^|$work/root|" "$work/manifest" | xargs -d '\n' rm
left=$(find "$work/root" -not -type d)
[[ -z $left ]] || fail "left after removal: $left"
