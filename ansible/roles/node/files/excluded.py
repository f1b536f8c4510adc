"""What a list of excluded names holds, as one line of JSON. Argument: the list, which may be millions long.

``names``: how many; ``tops``: whole top-level domains, which a list may not name on a node, so that they are
told one by one; ``junk``: the first lines that are neither, with their numbers.

Runs on the operator's machine, with the node's own code of this checkout.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from node.rules.excluded_names import parse_line
from node.rules.seeds import Junk

JUNK_SHOWN = 5


def read(path: Path) -> dict[str, Any]:
    """See above."""
    names = 0
    tops: list[str] = []
    junk: list[str] = []
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            text = raw.decode("utf-8", "replace")
            found = parse_line(text, number, path.name)
            if isinstance(found, Junk):
                name = text.partition("#")[0].strip().lower()
                if name.isascii() and name.replace("-", "").isalnum():
                    tops.append(name)
                elif len(junk) < JUNK_SHOWN:
                    junk.append(f"{name!r} (line {number}: {found.why})")
            elif found is not None:
                names += 1
    return {"names": names, "tops": tops, "junk": junk}


if __name__ == "__main__":
    print(json.dumps(read(Path(sys.argv[1]))))
