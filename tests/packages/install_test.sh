#!/usr/bin/env bash
# `cmake --install` of a build: every file at its place below DESTDIR, programs, library and Python module
# work from there, and nothing is left when the files of its manifest are removed.
#
#   install_test.sh BUILD VERSION
set -euo pipefail
build=$1 version=$2
consumer=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/consumer
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# value NAME: of the build's cache.
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

DESTDIR=$work/root cmake --install "$build" --prefix /opt/greta >/dev/null
cp "$build/install_manifest.txt" "$work/manifest"
prefix=$work/root/opt/greta
lib=$(value CMAKE_INSTALL_LIBDIR)

expected="bin/greta-db bin/greta-infer include/greta_trace.h
share/man/man1/greta-db.1 share/man/man1/greta-infer.1
share/bash-completion/completions/greta-db share/bash-completion/completions/greta-infer
share/zsh/site-functions/_greta-db share/zsh/site-functions/_greta-infer
share/fish/vendor_completions.d/greta-db.fish share/fish/vendor_completions.d/greta-infer.fish
$lib/libgreta_trace.a $lib/libgreta_trace.so $lib/libgreta_trace.so.N $lib/libgreta_trace.so.N.N.N
$lib/pkgconfig/greta_trace.pc
$lib/cmake/greta_trace/greta_trace-config.cmake $lib/cmake/greta_trace/greta_trace-config-CONFIGURATION.cmake
$lib/cmake/greta_trace/greta_trace-config-version.cmake"
found=$(cd "$prefix" && find . \( -type f -o -type l \) -not -name '*.py' | sed -E 's|^\./||; /\.so\./s/[0-9]+/N/g
  s/-config-(release|relwithdebinfo|debug|minsizerel)\.cmake/-config-CONFIGURATION.cmake/')
diff <(tr -s ' ' '\n' <<<"$expected" | sort) <(sort <<<"$found") || fail "these files differ"
outside=$(find "$work/root" -type f -not -path "$prefix/*")
[[ -z $outside ]] || fail "outside of the prefix: $outside"

echo "[programs]"
[[ $("$prefix/bin/greta-db" --version) == "greta-db $version "* ]] || fail "greta-db is not $version"
[[ $("$prefix/bin/greta-infer" --version) == "greta-infer $version "* ]] || fail "greta-infer is not $version"

# records WORD...: a program that writes two equal rows into the file named after it, and its version.
records() {
  rm -f "$work/t.db"
  [[ $("$@" "$work/t.db") == "$version" ]] || fail "not $version: $*"
  "$prefix/bin/greta-db" --db "$work/t.db" firstfail >"$work/said" || fail "$*: $(cat "$work/said")"
  grep -q PASS "$work/said" || fail "$*: $(cat "$work/said")"
}

echo "[C, by pkg-config and CMake]"
export PKG_CONFIG_PATH=$prefix/$lib/pkgconfig
[[ $(pkg-config --modversion greta_trace) == "$version" ]] || fail "pkg-config's version is not $version"
# shellcheck disable=SC2046  # words
cc "$consumer/two_rows.c" -o "$work/two_rows" $(pkg-config --cflags --libs greta_trace) -Wl,-rpath,"$prefix/$lib"
records "$work/two_rows"
# By the generator that made the build: CMake's default one, make, need not be installed.
cmake -S "$consumer" -B "$work/consumer" -G "$(value CMAKE_GENERATOR)" -DCMAKE_PREFIX_PATH="$prefix" \
  -DGRETA_VERSION="$version" -DGRETA_STATIC=ON >"$work/log" &&
  cmake --build "$work/consumer" >>"$work/log" || fail "a project that finds greta_trace: $(cat "$work/log")"
records "$work/consumer/two_rows"
records "$work/consumer/two_rows_static"
library=$prefix/$lib/libgreta_trace.so
diff <(grep -o '\bgreta_[a-z_]*(' "$prefix/include/greta_trace.h" | tr -d '(' | sort -u) \
  <(nm -D --defined-only "$library" | awk '$2 ~ /[TDBVW]/ { sub("@.*", "", $3); print $3 }' | sort) ||
  fail "what the library exports differs from what its header declares"

echo "[Python]"
if command -v python3 >/dev/null; then
  module=$(find "$prefix" -path '*/greta/__init__.py' -exec dirname {} \;)
  export PYTHONPATH=${module%/*} PYTHONDONTWRITEBYTECODE=1
  [[ $(python3 -m greta --version) == "greta $version ($prefix/$lib/"* ]] || fail "Python: not $version from $prefix"
  records python3 "$consumer/two_rows.py"
else
  echo "skipped: python3 is not installed, which the Python module needs"
fi

sed "s|^|$work/root|" "$work/manifest" | xargs -d '\n' rm
left=$(find "$work/root" -not -type d)
[[ -z $left ]] || fail "left after removal: $left"
