"""What files of the archive are called, by what became of them."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".warc.gz"
OPEN: Final = ".open"
"""Behind that, while it is written."""
DAMAGED: Final = ".damaged"
