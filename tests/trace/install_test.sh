#!/usr/bin/env bash
# What cmake --install puts in place is all that another project needs: by pkg-config and by CMake, with
# the shared library and with the static one. Exports are those of the header, and no others.
#   install_test.sh BUILD_DIR CMAKE CC
set -euo pipefail
build=$1 cmake=$2 cc=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/greta-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
for component in trace trace-dev trace-python; do
  DESTDIR=$work/root "$cmake" --install "$build" --component "$component" >/dev/null
done
pc=$(find root -name greta_trace.pc)
header=$(find root -name greta_trace.h)
library=$(find root -name 'libgreta_trace.so.*' | head -1)
prefix=$work/$(dirname "$(dirname "$header")")
python=$(dirname "$(dirname "$(find root -path '*greta/__init__.py')")")

diff <(nm -D --defined-only "$library" | sed -n 's/.* T \(greta_[a-z_]*\)@.*/\1/p' | sort) \
     <(grep -o '\bgreta_[a-z_]*(' "$header" | tr -d '(' | sort -u)
[[ -z $(nm -D --defined-only "$library" | grep ' [TDBVW] ' | grep -v ' T greta_') ]]

cat >program.c <<'C'
#include <greta_trace.h>
int main(int argc, char** argv) {
  greta_trace* trace = NULL;
  return argc != 2 || greta_trace_open(argv[1], GRETA_DATABASE, &trace) || greta_trace_close(trace);
}
C
export PKG_CONFIG_PATH=$(dirname "$work/$pc")
"$cc" -std=c11 program.c -o by_pkg_config -Wl,-rpath,"$(dirname "$work/$library")" \
  $(pkg-config --define-variable=prefix="$prefix" --cflags --libs greta_trace)
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(use C)
find_package(greta_trace REQUIRED)
add_executable(shared program.c)
target_link_libraries(shared greta::trace)
add_executable(static program.c)
target_link_libraries(static greta::trace_static)
CMAKE
"$cmake" -S . -B made -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build made >/dev/null
for program in ./by_pkg_config made/shared made/static; do
  "$program" "$work/g.db"
  rm "$work/g.db"
done
PYTHONPATH=$work/$python python3 -m greta --version | grep -F "$(realpath "$(dirname "$work/$library")")"
