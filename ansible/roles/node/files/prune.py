"""Remove releases that nobody will go back to: all but the one in force and the newest. Prints which."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

RELEASES = Path("/opt/milliarde/releases")
CURRENT = Path("/opt/milliarde/current")


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=int, required=True, help="how many stay, the one in force included")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    others = [each for each in RELEASES.iterdir() if each != CURRENT.resolve()]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for release in others[args.keep - 1 :]:
        print(release.name)
        if not args.dry_run:
            shutil.rmtree(release)


if __name__ == "__main__":
    main()
