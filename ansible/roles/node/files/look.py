"""What lives on this machine, as one line of JSON; changes nothing. Argument: a version.

``shard``: what stands beside the data, ``known``: what the system's disk remembers of it (either may be
null), ``release``: digest of that version's release where it is complete, ``current``: the version in force.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RELEASES = Path("/opt/milliarde/releases")


def read(path: Path) -> str | None:
    """A file's text, None where there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def look(version: str) -> dict[str, Any]:
    """See above."""
    shard = read(Path("/srv/milliarde/shard.json"))
    known = read(Path("/etc/milliarde/shard.json"))
    current = Path("/opt/milliarde/current")
    return {
        "shard": json.loads(shard) if shard else None,
        "known": json.loads(known) if known else None,
        "release": read(RELEASES / version / "complete"),
        "current": current.readlink().name if current.is_symlink() else None,
    }


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
