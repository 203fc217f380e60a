#!/usr/bin/env bash
# The Debian packages, installed in a bare Debian 12, used there by somebody without rights, and removed.
#
#   packages_test.sh [FOLDER]    the .deb files in FOLDER; without it script/package makes them first
#
# Needs root, debootstrap and lintian (script/setup debootstrap lintian); exits 77 (skipped) without. Takes a
# minute or two, most of it for the system and the packages that ours depend on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/packages/debian.sh
can_make_debian
command -v lintian >/dev/null || { echo "skipped: lintian is not installed"; exit 77; }

folder=${1:-}
if [[ -z $folder ]]; then
  script/package
  folder=build/package
fi
version=$(sed -n 's/^project(greta VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
debs=("$folder"/*_"$version"-1_*.deb)
[[ -e ${debs[0]} ]] || fail "no packages of version $version in $folder"

lintian --fail-on error --tag-display-limit 0 "${debs[@]}" || fail "lintian has errors"

work=$(mktemp -d "${TMPDIR:-/tmp}/greta-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/debian
make_debian "$root"
mkdir "$root/debs"
cp "${debs[@]}" "$root/debs"

# as_user COMMAND: by somebody who may write in an empty folder of their own and nowhere else.
as_user() {
  in_debian "$root" "mkdir -p /home/user && chown 1000:1000 /home/user && cd /home/user
    export HOME=/home/user
    exec setpriv --reuid 1000 --regid 1000 --clear-groups bash -euo pipefail -c $(printf %q "$1")"
}

echo "[programs]"
install_in "$root" /debs/greta_*.deb sqlite3
[[ $(as_user 'greta-db --version; greta-infer --version') == "greta-db $version "*"greta-infer $version "* ]] ||
  fail "--version is not $version"
as_user 'greta-infer synth --preset tiny --type q4_k_m --out m.gguf
  probe="greta-infer probe --suite b3_66_v2 --mode batch_invariant --gate strict --model m.gguf --db t.db"
  $probe --experiment healthy
  status=0
  $probe --experiment buggy --inject rope_theta@decode:layer=2 || status=$?
  [ $status = 1 ]' >"$work/probe" || fail "the installed greta-infer: $(cat "$work/probe")"
found=$(as_user "sqlite3 t.db 'SELECT experiment, verdict, layer, tensor FROM run_verdict ORDER BY 1'")
[[ $found == $'buggy|FAIL|2|q_post_rope\nhealthy|PASS||' ]] || fail "plain sqlite3 says: $found"
as_user 'greta-db --db t.db check --deep
  greta-db --db t.db report --run healthy --format html --out r.html' >"$work/asked" ||
  fail "the installed greta-db: $(cat "$work/asked")"

echo "[man pages and completions]"
install_in "$root" man-db bash-completion zsh
for program in greta-db greta-infer; do
  [[ $(as_user "man $program") == *"NAME"*"$program"* ]] || fail "no man page of $program"
  as_user ". /usr/share/bash-completion/bash_completion; _completion_loader $program || true; complete -p $program" \
    >/dev/null || fail "bash completes nothing for $program"
  [[ $(as_user "zsh -c 'autoload -Uz compinit && compinit -D && print \$_comps[$program]'") == "_$program" ]] ||
    fail "zsh completes nothing for $program"
done

# records WORD...: a program that writes two equal rows into the file named after it, and its version.
records() {
  [[ $(as_user "rm -f c.db; $* c.db") == "$version" ]] || fail "not $version: $*"
  [[ $(as_user 'greta-db --db c.db firstfail') == *PASS* ]] || fail "no PASS of two equal rows: $*"
}
cp -r tests/packages/consumer "$root/consumer"

echo "[C, by pkg-config and CMake]"
install_in "$root" /debs/libgreta-trace*.deb gcc libc6-dev pkg-config cmake make
as_user 'gcc /consumer/two_rows.c -o two_rows $(pkg-config --cflags --libs greta_trace)'
records ./two_rows
as_user "cmake -S /consumer -B built -DGRETA_VERSION=$version && cmake --build built" >"$work/built" ||
  fail "a project that finds greta_trace: $(cat "$work/built")"
records built/two_rows
install_in "$root" g++ libsqlitecpp-dev libsqlite3-dev libssl-dev
as_user "cmake -S /consumer -B built -DGRETA_STATIC=ON && cmake --build built && ! ldd built/two_rows_static | grep greta" \
  >"$work/built" || fail "a project that finds the static library: $(cat "$work/built")"
records built/two_rows_static

echo "[Python]"
install_in "$root" /debs/python3-greta_*.deb
[[ $(as_user 'python3 -m greta --version') == "greta $version (/usr/lib/"* ]] || fail "Python's greta is not $version"
records python3 /consumer/two_rows.py

echo "[removal]"
names=()
for deb in "${debs[@]}"; do names+=("$(dpkg-deb -f "$deb" Package)"); done
in_debian "$root" "apt-get -qq purge -y ${names[*]} >/dev/null 2>&1"
left=$(in_debian "$root" "find / -xdev -iname '*greta*' -not -path '/debs*' -not -path '/consumer*' -not -path '/home/*' -not -path '/proc/*'")
[[ -z $left ]] || fail "purge leaves: $left"
echo "packages of $version: installed, used, removed"
