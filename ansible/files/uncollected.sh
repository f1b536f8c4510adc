#!/usr/bin/env bash
# Names the files of a crawl that were written since the last collection ended (it leaves `collected` behind).
set -euo pipefail
# Through ssh's terminal what goes to stderr comes back as stdout, and would be taken for the name of a file.
[[ -d /srv/milliarde ]] || exit 0
cd /srv/milliarde
folders=()
for folder in warc log; do [[ ! -d $folder ]] || folders+=("$folder"); done
((${#folders[@]})) || exit 0
if [[ -e collected ]]; then
  find "${folders[@]}" -type f -name '[!.]*' -newer collected
else
  find "${folders[@]}" -type f -name '[!.]*'
fi
