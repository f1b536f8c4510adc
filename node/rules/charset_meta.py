"""What a page itself says about its encoding: ``<meta>``, or the XML declaration.

This is the "prescan" of the HTML standard (section 13.2.3.2), a reader of tags that knows nothing of
scripts or styles. The standard asks for the first 1,024 bytes; a browser that meets a declaration later
starts over with it, which here simply means to look further.
"""

from __future__ import annotations

import re

from node.rules.charset_labels import LABELS

MAX_BYTES = 65_536
"""How far into a page a declaration is looked for."""
_USUAL_BYTES = 1_024

_SPACE = rb"[\t\n\f\r ]*+"


def _attribute(group: bytes) -> bytes:
    """An attribute as the standard's "get an attribute" reads it; ``group`` opens its four groups.

    Possessive, so time is linear. A quote left open, or a name or value that runs into the end, is no match.
    """
    return (
        rb"[\t\n\f\r /]*+" + group + rb"[^\t\n\f\r />][^\t\n\f\r />=]*+)(?!\Z)"
        rb"(?:" + _SPACE + rb"=" + _SPACE + rb"""(?:"%b[^"]*+)"|'%b[^']*+)'""" % (group, group)
        + rb"""|%b[^\t\n\f\r >"'][^\t\n\f\r >]*+)(?=[\t\n\f\r >])|(?=>))""" % group
        + rb"|(?!" + _SPACE + rb"(?:=|\Z)))"
    )  # fmt: skip


_ATTRIBUTES = re.compile(_attribute(b"("))
_TAG = re.compile(
    rb"<(?:(meta)(?=[\t\n\f\r /])|/?[a-z][^\t\n\f\r >]*+)((?:" + _attribute(b"(?:") + rb")*+)[\t\n\f\r /]*+>"
)
_TAG_OPEN = re.compile(rb"</?[a-z]")

_CONTENT = re.compile(
    rb"charset[\t\n\f\r ]*+=[\t\n\f\r ]*+"
    rb"""(?:"([^"]*+)"|'([^']*+)'|["']|([^\t\n\f\r ;]++))"""
)
_XML = re.compile(
    rb"""<\?xml[^>]*?encoding[\x00-\x20]*+=[\x00-\x20]*+(?:"([^\x00-\x20">]*+)"|'([^\x00-\x20'>]*+)')[^>]*>"""
)


def declared(body: bytes) -> str | None:
    """The name of the encoding that ``body`` declares, None where it declares none that is known."""
    if body.startswith((b"<\0?\0x\0", b"\0<\0?\0x")):
        return "utf-16le" if body.startswith(b"<") else "utf-16be"
    return _from_meta(body[:_USUAL_BYTES]) or _from_meta(body[:MAX_BYTES]) or _from_xml(body)


def _known(label: bytes) -> str | None:
    """A label's encoding. ASCII was read to get here, so it can't be UTF-16."""
    name = LABELS.get(label.strip(b"\t\n\f\r ").decode("latin-1").lower())
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def _from_meta(head: bytes) -> str | None:
    head = head.lower()
    if b"charset" not in head:
        return None
    last = head.rfind(b"charset")
    position = 0
    while (position := head.find(b"<", position, last)) >= 0:
        if head.startswith(b"<!--", position):
            end = head.find(b"-->", position + 2)
            if end < 0:
                return None
            position = end + 3
            continue
        tag = _TAG.match(head, position)
        if tag is not None:
            if tag[1] is not None and (name := _of_tag(tag[2])) is not None:
                return name
            position = tag.end()
        elif _TAG_OPEN.match(head, position):
            return None  # It never ends.
        elif head.startswith((b"<!", b"</", b"<?"), position):
            position = head.find(b">", position)
            if position < 0:
                return None
        else:
            position += 1
    return None


def _of_tag(attributes: bytes) -> str | None:
    """What one ``<meta>`` declares; ``attributes`` is all between its name and its end, in lower case."""
    values: dict[bytes, bytes] = {}
    for match in _ATTRIBUTES.finditer(attributes + b">"):
        name, *alternatives = match.groups()
        values.setdefault(name, next((value for value in alternatives if value is not None), b""))
    if b"charset" in values:
        return _known(values[b"charset"])
    if values.get(b"http-equiv") == b"content-type" and b"content" in values:
        match_ = _CONTENT.search(values[b"content"])
        if match_ is not None:
            return _known(match_[1] or match_[2] or match_[3] or b"")
    return None


def _from_xml(body: bytes) -> str | None:
    if not body.startswith(b"<?xml"):
        return None
    match = _XML.match(body[:MAX_BYTES])
    return None if match is None else _known(match[1] or match[2] or b"")
