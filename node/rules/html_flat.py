"""Tags without a tree, for pages that would make a tree builder work for ever.

The HTML standard's tree construction looks through all open elements again and again, so a page of
20,000 unclosed ``<div>`` costs a second, and browsers stop nesting at 512. Pages whose tags are badly
out of balance are therefore read by this tokenizer (HTML Standard section 13.2.5), in time that grows with
their length alone. It sees the same tags and knows no nesting but that of ``<template>``.

(One kind of page gets by: elements that are opened once and silently reopened in thousands of
paragraphs. There the memory limit of the parser process makes lexbor give up, and the page comes here.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5

MAX_UNBALANCED = 1_000
"""Start tags without an end tag, or the reverse, in a page that still gets a tree. Elements that have no
end tag count, too; of 600 real pages one had so many."""
_BYTES_PER_TAG = 1_000
"""With more, a page is next to nothing but script or data, and quick to read flat. (Or it is one endless
tag, whose attributes a tree builder compares each with each.)"""
_SMALL = 8_192
_WINDOWS, _WINDOW_BYTES = 16, 256

WANTED = frozenset({"a", "area", "base", "meta", "link"})

_RAW_TEXT = frozenset({"script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"})


def _attribute(group: str) -> str:
    """The expression for one attribute; ``group`` opens its groups: name and three ways to quote a value.

    Possessive throughout. A quote left open, or a value that runs into the end, is no match.
    """
    value = rf"""{group}[^"]*+)"|'{group}[^']*+)'|{group}[^\t\n\f\r >"'][^\t\n\f\r >]*+)|(?=>)"""
    return (
        rf"{group}[^\t\n\f\r />][^\t\n\f\r />=]*+)"
        rf'(?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?:"{value})|(?![\t\n\f\r ]*+=))'
    )


_ATTRIBUTES = re.compile(_attribute("("))
_TAG = re.compile(rf"<(/?)([A-Za-z][^\t\n\f\r />]*+)((?:[\t\n\f\r /]++|{_attribute('(?:')})*+)>")
_MARKUP = re.compile(r"<[A-Za-z/!?]")
_TAG_OPEN = re.compile(r"</?[A-Za-z]")
_COMMENT_END = re.compile(r"--!?>")
_REFERENCE = re.compile(r"&(?:#(?:[0-9]++|[xX][0-9A-Fa-f]++);?+|[A-Za-z][A-Za-z0-9]*+;?+)")
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE) for name in _RAW_TEXT}


def is_lopsided(body: bytes) -> bool:
    """Should this page be spared a tree? A look at 4 KB of it decides for nearly all that it should not."""
    size = len(body)
    if size < _SMALL:
        return False
    tags = ends = 0
    for start in range(0, size, size // _WINDOWS + 1):
        window = body[start : start + _WINDOW_BYTES]
        tags += window.count(b"<")
        ends += window.count(b"</")
    # Per byte looked at. Half as much again as is too much: most pages that are near it are below it.
    scale = size / (_WINDOWS * _WINDOW_BYTES)
    may_be = tags * scale * _BYTES_PER_TAG < size or abs(tags - 2 * ends) * scale > 1.5 * MAX_UNBALANCED
    if not may_be:
        return False
    tags = body.count(b"<")
    return tags * _BYTES_PER_TAG < size or abs(tags - 2 * body.count(b"</")) > MAX_UNBALANCED


def tags(text: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The start tags named in ``WANTED``, in order, with their attributes (first of a name wins)."""
    templates = 0
    position = 0
    while (markup := _MARKUP.search(text, position)) is not None:
        position = markup.start()
        tag = _TAG.match(text, position)
        if tag is None:
            position = _after_markup(text, position)
            if position < 0:
                return
            continue
        position = tag.end()
        is_end, name, attributes = tag.groups()
        name = name.lower()
        if name == "template":
            templates = max(templates + (-1 if is_end else 1), 0)
        elif is_end:
            continue
        elif name in WANTED:
            if not templates:
                yield name, _read(attributes)
        elif name in _RAW_TEXT:
            end = _RAW_ENDS[name].search(text, position)
            if end is None:
                return
            position = end.start()
        elif name == "plaintext":
            return


def _after_markup(text: str, position: int) -> int:
    """Where to go on after markup that is no whole tag; -1 where nothing comes any more."""
    if text.startswith("<!--", position):
        end = _COMMENT_END.search(text, position + 2)
        return -1 if end is None else end.end()
    if _TAG_OPEN.match(text, position) is not None:
        return -1  # It never ends.
    end_of_bogus_comment = text.find(">", position)
    return end_of_bogus_comment + 1 if end_of_bogus_comment >= 0 else -1


def _read(attributes: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, *values in _ATTRIBUTES.findall(attributes + ">"):
        found.setdefault(name.lower(), _text("".join(values)))
    return found


def _text(value: str) -> str:
    """An attribute's value as a tree builder gives it: references, NUL and line ends replaced."""
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    if "\r" in value:
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    return _REFERENCE.sub(_dereference, value) if "&" in value else value


def _dereference(match: re.Match[str]) -> str:
    reference = match[0]
    if reference[1] == "#":
        return unescape(reference)
    name = reference[1:]
    # Without its semicolon a name counts only where nothing follows that could belong to it.
    if not name.endswith(";") and match.string[match.end() : match.end() + 1] == "=":
        return reference
    return html5.get(name, reference)
