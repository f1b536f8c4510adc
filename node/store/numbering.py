"""Names of numbered files: ``PREFIX-000001.warc.gz``. A number is never used twice in a folder.

Files may be collected and removed while a crawl runs, so what lies in the folder doesn't tell
which numbers were used. The last one is therefore noted in a small hidden file beside them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from node.errors import DiskError, InputError


class Numbering:
    """Hands out ``prefix-NNNNNN`` + ``suffix`` in ``folder``, which is made if it is absent.

    ``working`` are further suffixes under which a file of that number may lie.
    Raises ``DiskError`` where the folder can't be made or read.
    """

    def __init__(self, folder: Path, prefix: str, suffix: str, working: tuple[str, ...] = ()) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", prefix):
            raise InputError(f"{prefix!r} can't begin a file name; use letters, digits, '.', '_' and '-'")
        self._folder = folder
        self._prefix = prefix
        self._suffix = suffix
        self._note = folder / f".{prefix}{suffix}.last"
        endings = "|".join(re.escape(ending) for ending in ("", *working))
        pattern = re.compile(rf"{re.escape(prefix)}-(\d{{6,}}){re.escape(suffix)}(?:{endings})")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            used = [int(found[1]) for path in folder.iterdir() if (found := pattern.fullmatch(path.name))]
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror}; choose a folder that can be written") from error
        self._last = max(used, default=0)
        self._last = max(self._last, self._noted())

    def take(self) -> str:
        """The next name. ``note`` must follow before a file of that name is made."""
        self._last += 1
        return f"{self._prefix}-{self._last:06d}{self._suffix}"

    def note(self, name: str, *, fsync: bool) -> None:
        """Remember that ``name`` is used. Raises ``OSError``."""
        digits = name.removeprefix(f"{self._prefix}-").removesuffix(self._suffix)
        beside = self._note.with_name(self._note.name + ".new")
        with beside.open("w", encoding="ascii") as file:
            file.write(digits + "\n")
            if fsync:
                file.flush()
                os.fsync(file.fileno())
        beside.replace(self._note)

    def _noted(self) -> int:
        try:
            text = self._note.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return 0
        except (OSError, UnicodeDecodeError) as error:
            raise DiskError(f"{self._note}: {error}; remove it, unless files were moved away") from error
        if not text.isdigit():
            raise DiskError(
                f"{self._note} holds no number; remove it, unless files beside it were moved away"
            )
        return int(text)


def fsync_folder(folder: Path) -> None:
    """Make names that were added, changed or removed in ``folder`` durable. Raises ``OSError``."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
