"""What the commands ``explain`` and ``links`` take in: questions, a JSON object a line, and files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from node.errors import InputError
from node.work.explain import Explainer, Question

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A question may hold a whole robots.txt, each byte of it written as ``\\u0000``."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""What is read of a file at most; crawlers stop long before."""


def load(file: Path) -> bytes:
    """The bytes of a file; ``-`` is stdin. Raises ``InputError``."""
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_FILE_BYTES)
        with file.open("rb") as opened:
            return opened.read(MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from None


def typed(text: str) -> str:
    """A word of the command line. What is not UTF-8 in it could be in no URL, either."""
    return os.fsencode(text).decode("utf-8", "replace")


def answers(explainer: Explainer, lines: BinaryIO) -> Iterator[str]:
    """For each line that holds a JSON question a line of JSON: its answer, or ``{"error": why}``.

    Empty lines are passed over. What is in ``Question`` may be asked; other keys are ignored.
    """
    while line := lines.readline(MAX_LINE_BYTES):
        try:
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = lines.readline(MAX_LINE_BYTES)
                raise InputError(f"a question must be shorter than {MAX_LINE_BYTES:,} bytes")
            if line.strip():
                yield to_json(explainer.answer(question(line)))
        except InputError as error:
            yield to_json({"error": str(error)})


def question(line: bytes) -> Question:
    """A question from its JSON. Raises ``InputError`` in one sentence."""
    try:
        # Not msgspec's reader: JSON can hold halves of surrogate pairs, and pages have links that do.
        return msgspec.convert(json.loads(line), Question)
    except msgspec.ValidationError as error:
        raise InputError(f"no question: {str(error).replace('`$.', '`')}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None


def to_json(value: object, indent: int | None = None) -> str:
    """JSON, on one line unless indented, in ASCII: so halves of surrogate pairs can be written, too."""
    return json.dumps(msgspec.to_builtins(value), indent=indent)
