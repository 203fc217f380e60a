#!/usr/bin/env bash
# script/run-remote against an sshd of our own on a loopback port.
#
#   run_remote_test.sh GRETA_INFER GRETA_DB [--build]
#
# The node is this machine under another home folder. Without --build the commit counts as built there
# already, with the programs given, so that the test takes seconds. Exits 77 (skipped) without sshd.
# Login shells that are not installed (fish, csh) are skipped, and it says so.
set -euo pipefail
infer=$1 greta_db=$2 build=${3:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || {
  echo "skipped: sshd is not installed (Debian package openssh-server)"
  exit 77
}
commit=$(git rev-parse HEAD 2>/dev/null) || {
  echo "skipped: not a git checkout"
  exit 77
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/greta-remote-test.XXXXXX")
chmod 755 "$folder"
trap 'kill "$(cat "$folder/sshd.pid" 2>/dev/null)" 2>/dev/null || true; rm -rf "$folder"' EXIT
fail() {
  echo "FAILED: $*" >&2
  cat "$folder"/*.log >&2 2>/dev/null || true
  exit 1
}

ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$folder/user_key"
mkdir -p /run/sshd 2>/dev/null || true
# What the node's login shell is, a test chooses.
login='exec "${GRETA_TEST_SHELL:-sh}" -c "$SSH_ORIGINAL_COMMAND"'
# A free port: the first one on which our sshd stays up.
for port in 42022 42122 42222 42322; do
  "$sshd" -f /dev/null -h "$folder/host_key" -E "$folder/sshd.log" -o "Port=$port" \
    -o ListenAddress=127.0.0.1 -o "PidFile=$folder/sshd.pid" -o UsePAM=no -o StrictModes=no \
    -o PermitRootLogin=prohibit-password -o "AuthorizedKeysFile=$folder/user_key.pub" \
    -o PasswordAuthentication=no -o "ForceCommand=$login" -o AcceptEnv=GRETA_TEST_SHELL && break
done
for _ in {1..50}; do [[ -s $folder/sshd.pid ]] && break; sleep 0.1; done
[[ -s $folder/sshd.pid ]] || fail "sshd did not start"

node=$(id -un)@127.0.0.1
remote=$folder/node
remote_shell=bash
run_remote() {
  GRETA_DB_PROGRAM=$greta_db script/run-remote "$node" "$@" --dir "$remote" \
    --ssh-option "SetEnv=GRETA_TEST_SHELL=$remote_shell" \
    --ssh-option "Port=$port" --ssh-option "IdentityFile=$folder/user_key" \
    --ssh-option IdentitiesOnly=yes --ssh-option StrictHostKeyChecking=no \
    --ssh-option UserKnownHostsFile=/dev/null --ssh-option LogLevel=ERROR
}
if [[ $build != --build ]]; then
  mkdir -p "$remote/$commit/src/script" "$remote/$commit/build/bin"
  printf '#!/bin/sh\n' >"$remote/$commit/src/script/setup"
  chmod +x "$remote/$commit/src/script/setup"
  touch "$remote/$commit/src/.complete" "$remote/$commit/built"
  ln -s "$infer" "$remote/$commit/build/bin/greta-infer"
fi

expect() {  # expect STATUS LOG COMMAND...
  local wanted=$1 log=$folder/$2 status=0
  shift 2
  "$@" >"$log" 2>&1 || status=$?
  ((status == wanted)) || fail "exit status $status, not $wanted: $*"
}
db="$folder/a database.db"
query() { sqlite3 -batch -noheader "$db" "$1"; }

expect 0 as_designed.log run_remote 2026-02-07 --mode as_designed --db "$db"
grep -q 'PASS (rounding only' "$folder/as_designed.log" || fail "no verdict was printed"
expect 0 kv_aligned.log run_remote 2026-02-07 --mode kv_aligned --db "$db"
expect 0 invariant.log run_remote 2026-02-07 --mode batch_invariant --db "$db"
verdicts=$(query "SELECT mode, verdict, strict_verdict FROM run_verdict ORDER BY mode")
[[ $verdicts == $'as_designed|PASS|FAIL\nbatch_invariant|PASS|PASS\nkv_aligned|PASS|FAIL' ]] ||
  fail "verdicts: $verdicts"
[[ $(query "SELECT count(DISTINCT value) FROM attribute WHERE dim = 'env.HIP_LAUNCH_BLOCKING'") == 1 ]] ||
  fail "the deterministic environment is not in the run record"

# The same run once more is another run, not more rows of the first.
expect 0 again.log run_remote 2026-02-07 --mode as_designed --db "$db"
[[ $(query "SELECT count(*) FROM run WHERE mode = 'as_designed'") == 2 ]] || fail "the second run was not kept apart"
[[ $(query "SELECT count(*) FROM pair WHERE status = 'AMBIGUOUS'") == 0 ]] || fail "two runs became one"

# A busy node is not disturbed.
(
  exec 9>>"$remote/lock"
  flock 9
  expect 75 busy.log run_remote 2026-02-07 --db "$db"
)
grep -q 'another run holds' "$folder/busy.log" || fail "a busy node is not explained"

expect 2 mode.log run_remote --mode nonsense --db "$db"
expect 2 date.log run_remote 07/02/2026 --db "$db"
expect 2 date.log run_remote 2026-02-30 --db "$db"
expect 2 model.log run_remote 2026-02-07 --model "$folder/no such.gguf" --db "$db"
grep -q 'no such.gguf' "$folder/model.log" || fail "a missing model is not named"
left=("$remote/$commit"/run.*)
[[ ! -e ${left[0]} ]] || fail "left on the node: ${left[*]}"

# What follows needs a node on which everything counts as built.
if [[ $build == --build ]]; then
  echo "run-remote: all passed"
  exit
fi

# git as the script calls it, but what it sends is a tree that needs no building.
mkdir -p "$folder/bin" "$folder/tree/script"
printf '#!/bin/sh\n[ ! -e "%s/cut" ] || . "%s/cut"\n' "$folder" "$folder" >"$folder/tree/script/setup"
chmod +x "$folder/tree/script/setup"
cat >"$folder/bin/git" <<GIT
#!/bin/sh
[ "\$1" = archive ] || exec "$(command -v git)" "\$@"
echo "\$*" >"$folder/archived"
exec tar -c -C "$folder/tree" .
GIT
chmod +x "$folder/bin/git"
prepare_node() {  # a node to which nothing was sent, with the programs built
  remote=$1
  mkdir -p "$remote/$commit/build/bin"
  touch "$remote/$commit/built"
  ln -s "$infer" "$remote/$commit/build/bin/greta-infer"
}

# Any login shell there, any path on either side, in any locale.
PATH=$folder/bin:$PATH
for remote_shell in sh bash dash fish csh tcsh zsh; do
  if ! command -v "$remote_shell" >/dev/null; then
    echo "skipped: the login shell $remote_shell is not installed"
    continue
  fi
  for locale in C $([[ $remote_shell != fish ]] || echo C.UTF-8); do
    prepare_node "$folder/-nœud d'$remote_shell \$HOME \"!\" $locale"
    db="$folder/données d'été $remote_shell $locale.db"
    LC_ALL=$locale expect 0 "$remote_shell.log" run_remote 2026-02-07 --mode as_designed --db "$db"
    [[ $(query "SELECT verdict FROM run_verdict") == PASS ]] || fail "$remote_shell, $locale: no verdict"
    [[ $(<"$folder/archived") == *" $commit" ]] || fail "sent $(<"$folder/archived"), not $commit"
    [[ -e $remote/$commit/src/.complete ]] || fail "$remote_shell: the commit did not arrive"
  done
done

# A model of a name that every shell reads differently.
prepare_node "$folder/models"
model="$folder/modèle \$(x) 'q' \"!1\" *.gguf"
"$infer" synth --preset tiny --type q8_0 --out "$model" 2>/dev/null
for remote_shell in sh fish csh; do
  command -v "$remote_shell" >/dev/null || continue
  expect 0 model_name.log run_remote 2026-02-07 --model "$model" --db "$folder/models.db"
done

# What git does not finish is no commit, even where it breaks off between two members.
remote_shell=sh
prepare_node "$folder/half"
whole=$(sed -n '$p' "$folder/bin/git")
sed -i '$s/.*/tar -c -C "'"${folder//\//\\/}"'\/tree" --exclude=setup . | head -c 1024; exit 1/' "$folder/bin/git"
expect 2 half.log run_remote 2026-02-07 --db "$folder/half.db"
[[ ! -e $remote/$commit/src ]] || fail "half a commit was kept"
sed -i '$d' "$folder/bin/git" && echo "$whole" >>"$folder/bin/git"
# What lies there without having come whole is not built.
mkdir -p "$remote/$commit/src/script" && printf '#!/bin/sh\nexit 9\n' >"$remote/$commit/src/script/setup"
chmod +x "$remote/$commit/src/script/setup"
expect 0 mended.log run_remote 2026-02-07 --mode as_designed --db "$folder/half.db"
[[ -e $remote/$commit/src/.complete && ! -e $remote/$commit/src/tar ]] || fail "the commit did not arrive"

# A database of two runs, or of none, is not the answer to one.
for runs in 'exec "$infer" "$@"; ' 'for last; do :; done; exec sqlite3 "$last" "DELETE FROM lineage_member; DELETE FROM run"; '; do
  prepare_node "$folder/runs ${#runs}"
  rm "$remote/$commit/build/bin/greta-infer"
  printf '#!/bin/sh\ninfer="%s"\n"$infer" "$@" || exit\n[ "$1" != probe ] || { %s }\n' "$infer" "$runs" \
    >"$remote/$commit/build/bin/greta-infer"
  chmod +x "$remote/$commit/build/bin/greta-infer"
  expect 2 runs.log run_remote 2026-02-07 --mode as_designed --db "$folder/runs.db"
  grep -q 'not the database of one run' "$folder/runs.log" || fail "a database of other runs is not explained"
  [[ ! -e $folder/runs.db ]] || fail "a database of other runs was merged"
done

# A connection that is lost is an error, not a verdict, and nothing is merged.
remote_shell=sh
prepare_node "$folder/cut off"
# Kills the sshd that serves the session this runs in.
cat >"$folder/cut" <<'CUT'
pid=$$
while [ "$pid" -gt 1 ] && ! grep -q '^Name:.sshd' "/proc/$pid/status"; do
  pid=$(sed -n 's/^PPid:.//p' "/proc/$pid/status")
done
[ "$pid" -gt 1 ] && kill -9 "$pid"
sleep 1
CUT
expect 2 cut.log run_remote 2026-02-07 --db "$folder/cut.db"
grep -q 'connection failed or was lost' "$folder/cut.log" || fail "a lost connection is not explained"
[[ ! -e $folder/cut.db ]] || fail "a run was merged over a lost connection"
rm "$folder/cut"
kill "$(cat "$folder/sshd.pid")"
expect 2 gone.log run_remote 2026-02-07 --db "$folder/cut.db"
grep -q 'connection failed or was lost' "$folder/gone.log" || fail "a node that is gone is not explained"
echo "run-remote: all passed"
