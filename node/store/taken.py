"""What was taken out of the frontier and may come back: a file for each domain and reason, an entry a line.

They are written before the frontier lets go of what stands in them. So a line too many may be there, but
none too few; ``offer`` lets as many return as were taken out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from node.errors import DiskError
from node.settings import Settings

FOLDER: Final = "taken"
EXCLUDED: Final = "excluded"
TRIMMED: Final = "trimmed"


def taken_file(settings: Settings, domain: str, reason: str) -> Path:
    """Where the URLs of a domain stand that were taken out for a reason."""
    return settings.data / FOLDER / f"{domain}.{reason}.txt"


def append(path: Path, lines: Iterable[str]) -> None:
    """Add lines to a file. Raises ``DiskError``."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in lines)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}; nothing was taken out") from None
