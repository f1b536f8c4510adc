# shellcheck shell=bash
# What the scripts share. Sourced, never run; the caller has `set -euo pipefail` and stands in the checkout.

# shellcheck disable=SC2034  # used by those who source this
VENV=.venv
# Debian keeps servers (nginx) out of an ordinary user's PATH.
export PATH="$PWD/.venv/bin:$PATH:/usr/sbin:/sbin"

me=$(basename "$0")
log=

say() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# The comment block at the top of a script is its --help.
help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

# step WHAT COMMAND...: run it quietly; where it fails, say which step, why (the end of its output), and return 1.
step() {
  local what=$1 started=$SECONDS
  shift
  say "$what ..."
  if [[ -z $log ]]; then
    log=$(mktemp "${TMPDIR:-/tmp}/milliarde-$me.XXXXXX.log")
    trap 'rm -f "$log"' EXIT
  fi
  if ! "$@" >"$log" 2>&1 </dev/null; then
    say "FAILED: $what: $*"
    tail -n 15 "$log" | sed 's/^/    | /' >&2
    return 1
  fi
  if ((SECONDS - started >= 5)); then say "$what: $((SECONDS - started)) s"; fi
}

# version_at_least HAVE WANT: compare dotted versions.
version_at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# as_root COMMAND...: as root, or through sudo where that asks no question.
as_root() {
  if [[ $EUID == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# may_install: can system packages be installed here without a question? MILLIARDE_NO_APT=1 says no.
may_install() {
  [[ -z ${MILLIARDE_NO_APT:-} ]] && command -v apt-get >/dev/null \
    && { [[ $EUID == 0 ]] || sudo -n true 2>/dev/null; }
}

# apt_install PACKAGE...: install, with fresh package lists if the ones here do not do.
apt_install() {
  local apt=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
    apt-get -q -y -o DPkg::Lock::Timeout=120 --no-install-recommends)
  as_root "${apt[@]}" install "$@" || { as_root "${apt[@]}" update && as_root "${apt[@]}" install "$@"; }
}

# apt_unpack PACKAGE: unpack a system package into .venv/deb/PACKAGE without installing it. So it needs no root,
# starts no service and changes nothing outside the checkout. What it depends on must be there already.
apt_unpack() {
  local package=$1 target=$VENV/deb/$1 work
  [[ -d $target ]] && return
  command -v apt-get >/dev/null || { echo "there is no apt-get here" && return 1; }
  work=$(mktemp -d)
  # With package lists of its own, since only root may refresh the system's (and they may be missing).
  local apt=(apt-get -q -o "Dir::State::lists=$PWD/$VENV/apt/lists" -o "Dir::Cache=$PWD/$VENV/apt/cache"
    -o APT::Sandbox::User=root)
  mkdir -p "$VENV/apt/lists/partial" "$VENV/apt/cache/archives/partial" "$VENV/deb"
  (
    cd "$work"
    apt-get -q -o APT::Sandbox::User=root download "$package" \
      || "${apt[@]}" download "$package" \
      || { "${apt[@]}" update && "${apt[@]}" download "$package"; }
  ) && dpkg-deb -x "$work"/*.deb "$work/unpacked" && mv -T "$work/unpacked" "$target"
  local status=$?
  rm -rf "$work"
  return $status
}

# apt_forget: drop the package lists that apt_unpack may have fetched; they are large and soon stale.
apt_forget() { rm -rf "$VENV/apt"; }

# need_nginx: the web server that some tests use as the other side. Only its program is wanted, not its service.
need_nginx() {
  command -v nginx >/dev/null && return
  if step "unpacking nginx into $VENV" apt_unpack nginx && "$VENV/deb/nginx/usr/sbin/nginx" -v 2>/dev/null; then
    ln -sf ../deb/nginx/usr/sbin/nginx "$VENV/bin/nginx"
  else
    say "no nginx: the tests that need it will say so (sudo apt-get install nginx-light)"
  fi
}

# need_operator: programs with which the tests of a fleet play its operator.
need_operator() {
  local program missing=()
  for program in rsync ssh; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  ((${#missing[@]})) || return 0
  { may_install && step "installing what an operator needs (${missing[*]})" apt_install rsync openssh-client; } \
    || say "no ${missing[*]}: the tests that need it will say so"
}

# need_boxes: what tests/fleet makes machines in a box with, and what those are made from (a bootstrapped Debian, kept
# in /var/cache/milliarde-fleet). Only root can have them.
need_boxes() {
  [[ $EUID == 0 ]] || return 0
  local program missing=()
  for program in debootstrap systemd-nspawn nft ip ssh losetup; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  if ((${#missing[@]})); then
    { may_install && step "installing what makes boxes (${missing[*]})" \
      apt_install debootstrap systemd-container nftables iproute2 openssh-client mount; } \
      || say "no ${missing[*]}: the tests of a fleet will say so"
  fi
  step "making what boxes are made from" "$VENV/bin/python" -m tests.fleet base || say "no boxes: the tests will say so"
}

# need_compiler: it makes what sets the wall clock of a crawl (tests/chaos/wall.c), which only root's tests do.
need_compiler() {
  [[ $EUID == 0 ]] && ! command -v cc >/dev/null || return 0
  { may_install && step "installing a C compiler for a test" apt_install gcc libc6-dev; } \
    || say "no C compiler: the test that needs it will say so"
}

# need_documentation: trees of real pages that tests read and crawl (tests/rules/real_pages.py,
# tests/whole/documentation.py). MILLIARDE_REAL_PAGES=all wants more of them, 670 MB in all.
need_documentation() {
  local package packages=(apache2-doc gosa-help-de libjlha-java-doc-ja python-django-doc)
  if [[ ${MILLIARDE_REAL_PAGES:-} == all ]]; then packages+=(postgresql-doc-15 python3.11-doc rust-doc); fi
  for package in "${packages[@]}"; do
    [[ -d $VENV/deb/$package ]] || step "unpacking $package into $VENV" apt_unpack "$package" \
      || say "no $package: the tests that need it will say so"
  done
}
