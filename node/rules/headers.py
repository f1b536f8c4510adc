"""Reading a response's headers: (name, value) pairs of raw bytes, in the order they came."""

from __future__ import annotations

from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]

_CLEAN = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)) + b"\t"
"""The bytes a header value may have (RFC 9110 section 5.5)."""


def first(headers: Headers, name: bytes) -> bytes | None:
    """The value of the first header called ``name`` (lower case), as it came; None if there is none."""
    size = len(name)
    for key, value in headers:
        if len(key) == size and key.lower() == name:
            return value
    return None


def every(headers: Headers, name: bytes) -> list[str]:
    """All values of the headers called ``name`` (lower case); each byte is one character (Latin-1)."""
    size = len(name)
    return [value.decode("latin-1") for key, value in headers if len(key) == size and key.lower() == name]


def text(headers: Headers, name: bytes) -> str | None:
    """The first value of ``name`` (lower case) as text (Latin-1), or None."""
    value = first(headers, name)
    return None if value is None else value.decode("latin-1")


def location(headers: Headers) -> str | None:
    """Where a redirect points, as written; None where it points nowhere.

    The first Location counts, never several glued together. Bytes beyond ASCII are UTF-8, as browsers
    read them, or else Latin-1. What it means relative to the page is for a URL parser to say.
    """
    value = first(headers, b"location")
    if not value:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def unclean(headers: Headers) -> bool:
    """Whether any value holds a control character, which no header may."""
    return bool(b"".join([value for _, value in headers]).translate(None, _CLEAN))


def clean(headers: Headers) -> tuple[tuple[tuple[bytes, bytes], ...], tuple[str, ...]]:
    """The headers without those that hold a control character, and the names of those left out."""
    kept = tuple(pair for pair in headers if not pair[1].translate(None, _CLEAN))
    dropped = tuple(
        name.decode("latin-1").lower() for name, value in headers if value.translate(None, _CLEAN)
    )
    return kept, dropped


def essence(content_type: str) -> str:
    """The media type of a Content-Type value: lower case, without parameters; "" if there is none."""
    return content_type.partition(";")[0].strip().lower()
