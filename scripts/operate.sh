# shellcheck shell=bash
# What the operator's scripts share: whom a command is for, asking, and trying without doing. Sourced, never run; the
# caller has `set -euo pipefail`. Nothing here needs Ansible, a checkout or a certain folder.
#
# On a node a script calls `milliarde`, over a fleet `milliarde-fleet`. Which, is said by
#   --config FILE        the node with these settings          --node    the node here
#   --inventory FILE     the fleet of this inventory           --fleet   the fleet that MILLIARDE_INVENTORY names
# and where nothing is said, by what is there: settings of a node (MILLIARDE_CONFIG, /etc/milliarde/node.toml) mean the
# node, else MILLIARDE_INVENTORY means the fleet. Each script tells on stderr whom it acts on.

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
me=$(basename "$0")
usage_status=2 refused_status=22

say() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
  say "$*"
  exit "$usage_status"
}

# The comment block at the top of a script is its --help.
help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; }

# wants WHAT OPTION [VALUE...]: has an option its value?
wants() {
  if (($# < 3)); then die "$2 wants $1"; fi
}

whom='' config='' inventory='' limit=''
dry_run='' yes=''
rest=() base=()

# parse WORDS...: take the options that all scripts share; the others are in `rest`, in their order.
parse() {
  while (($#)); do
    case $1 in
      -h | --help) help && exit ;;
      --node) whom=node && shift ;;
      --fleet) whom=fleet && shift ;;
      --config) wants "a file" "$@" && config=$2 whom=node && shift 2 ;;
      -i | --inventory) wants "a file" "$@" && inventory=$2 whom=fleet && shift 2 ;;
      --limit) wants hosts "$@" && limit=$2 && shift 2 ;;
      --dry-run) dry_run=1 && shift ;;
      --yes) yes=1 && shift ;;
      *) rest+=("$1") && shift ;;
    esac
  done
}

# program NAME: where it is: in this checkout, beside this file (a release on a node), or in PATH.
program() {
  local each
  for each in "$here/../.venv/bin/$1" "$here/$1"; do
    if [[ -x $each ]]; then printf '%s/%s\n' "$(cd "$(dirname "$each")" && pwd)" "$1" && return; fi
  done
  command -v "$1" || die "$1 is not installed here"
}

# choose: whom is it for? Sets `whom` and `base`, to which the words of a command are added, and says so.
choose() {
  local standard=/etc/milliarde/node.toml
  if [[ -z $whom ]]; then
    if [[ -n ${MILLIARDE_CONFIG:-} || -e $standard ]]; then
      whom=node
    elif [[ -n ${MILLIARDE_INVENTORY:-} ]]; then
      whom=fleet
    else
      die "here is no node ($standard), and no fleet is named: give --inventory FILE or --config FILE"
    fi
  fi
  if [[ $whom == fleet ]]; then
    inventory=${inventory:-${MILLIARDE_INVENTORY:-}}
    [[ -n $inventory ]] || die "which fleet? give --inventory FILE, or set MILLIARDE_INVENTORY"
    base=("$(program milliarde-fleet)")
    say "on the fleet of $inventory${limit:+, $limit alone}"
  else
    [[ -z $limit ]] || die "--limit names nodes of a fleet, and this is for the node here"
    config=${config:-${MILLIARDE_CONFIG:-}}
    if [[ -z $config && -x /usr/local/bin/milliarde ]]; then
      # It knows the node's settings, and runs as the node's user, which takes root.
      base=(/usr/local/bin/milliarde)
      [[ $EUID == 0 ]] || base=(sudo /usr/local/bin/milliarde)
    else
      base=("$(program milliarde)")
    fi
    say "on this node (${config:-$standard})"
  fi
}

# act VERB WORDS...: do it, there; with --dry-run only say what would be called. The options of whom it is for are put
# behind it all. Answers the exit status of the command.
act() {
  local words=("${base[@]}" "$@")
  if [[ $whom == fleet ]]; then
    words+=(--inventory "$inventory" ${limit:+--limit "$limit"})
  elif [[ -n $config ]]; then
    words+=(--config "$config")
  fi
  if [[ -n $dry_run ]]; then
    printf 'would call: %s\n' "${words[*]@Q}"
    return
  fi
  "${words[@]}"
}

# confirm QUESTION: go on only if somebody says yes, here or by --yes.
confirm() {
  if [[ -n $yes || -n $dry_run ]]; then return; fi
  local answer=
  if [[ -t 0 ]]; then
    read -r -p "$me: $1 Type 'yes' to go on: " answer
    if [[ $answer == yes ]]; then return; fi
    say "nothing was done"
  else
    say "$1 Nobody is here to answer; --yes says it beforehand"
  fi
  exit "$refused_status"
}
