#!/usr/bin/env bash
# Every step of the Dockerfile in turn, where there is no Docker: an image is a bare Debian 12 in a folder,
# RUN a chroot. What it makes is used. An instruction that is not known here fails.
#
# Needs root and debootstrap; exits 77 (skipped) without. Compiles greta: some 5 minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/packages/debian.sh
can_make_debian

work=$(mktemp -d "${TMPDIR:-/tmp}/greta-dockerfile.XXXXXX")
trap 'rm -rf "$work"' EXIT
make_debian "$work/base"

declare -A image_of=()
image='' directory=/ command=''

begin_stage() {
  [[ $1 =~ ^debian:12(-slim)?$ ]] || fail "FROM $1: not an image that is made here"
  image=$work/stage${#image_of[@]}
  image_of[${3:-last}]=$image
  cp -a "$work/base" "$image"
  directory=/
}

copy_sources() {
  local excluded=() line
  while read -r line; do excluded+=(--exclude "./$line"); done <.dockerignore
  tar -c "${excluded[@]}" . | tar -x --no-same-owner -C "$image$directory"
}

copy() {
  if [[ $* == ". ." ]]; then
    copy_sources
  elif [[ $1 == --from=* && $# == 3 ]]; then
    # shellcheck disable=SC2086  # a pattern
    cp ${image_of[${1#--from=}]}$2 "$image$3"
  else
    fail "COPY $*: not known here"
  fi
}

while read -r instruction rest; do
  read -ra words <<<"$rest"
  case $instruction in '' | '#'*) continue ;; esac
  echo "[$instruction $rest]"
  case $instruction in
    FROM) begin_stage "${words[@]}" ;;
    WORKDIR) directory=$rest && mkdir -p "$image$directory" ;;
    COPY) copy "${words[@]}" ;;
    RUN) in_debian "$image" "cd $directory && $rest" ;;
    CMD) command=$(tr -d '[]",' <<<"$rest") ;;
    *) fail "$instruction: not known here" ;;
  esac
done < <(sed -e ':more' -e '/\\$/ { N; s/\\\n *//; b more }' Dockerfile)

[[ $(in_debian "$image" "cd $directory && $command") == *'Usage: greta-db'* ]] || fail "'$command' says no help"
in_debian "$image" "cd $directory && greta-infer synth --preset tiny --type q8_0 --out m.gguf &&
  greta-infer probe --model m.gguf --db t.db --gate numeric && sqlite3 t.db 'SELECT * FROM first_fail'"
[[ -z $(ls -A "$image/tmp") ]] || fail "/tmp of the image is not empty: $(ls -A "$image/tmp")"
echo "Dockerfile: every step done, and both programs run"
