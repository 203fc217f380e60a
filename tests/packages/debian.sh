# Sourced by the tests of this folder: bare systems of Debian 12 in folders, by debootstrap and chroot.
suite=bookworm

# can_make_debian: or says what is missing, and exits with 77 (skipped).
can_make_debian() {
  ((EUID == 0)) || { echo "skipped: a chroot needs root"; exit 77; }
  PATH=$PATH:/usr/sbin
  command -v debootstrap >/dev/null || { echo "skipped: debootstrap is not installed"; exit 77; }
}

# sources: where this machine has its packages of Debian 12 from, a line "SITE SUITE" each.
sources() {
  apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
    awk -v suite="$suite" 'index($2, suite) == 1' | sort -u
}

# make_debian FOLDER: the smallest system that apt-get works in, with today's index of packages.
make_debian() {
  local folder=$1 site release
  site=$(sources | awk -v suite="$suite" '$2 == suite { print $1; exit }')
  [[ -n $site ]] || { echo "skipped: this machine has no source of Debian 12's packages"; exit 77; }
  if ! debootstrap --variant=minbase "$suite" "$folder" "$site" >"$folder.log" 2>&1; then
    cat "$folder.log" >&2
    return 1
  fi
  sources | while read -r site release; do
    echo "deb $site $release main"
  done >"$folder/etc/apt/sources.list"
  echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/unsafe-io"  # nobody needs it after a power failure
  in_debian "$folder" 'apt-get -qq update'
}

# in_debian FOLDER COMMAND: bash runs it as root in that system, with nothing of this one's environment.
# What it starts ends with it.
in_debian() {
  local folder=$1 command=$2
  unshare --mount --pid --fork --kill-child --mount-proc="$folder/proc" -- chroot "$folder" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "$command" </dev/null
}

# install_in FOLDER PACKAGE...: names of packages, or paths of .deb files in that system.
install_in() {
  local folder=$1
  shift
  in_debian "$folder" "apt-get -qq install -y --no-install-recommends $* >/var/log/install.log 2>&1 ||
    { cat /var/log/install.log >&2; exit 1; }"
}

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
