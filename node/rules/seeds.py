"""One line of a seed list: a URL or a bare domain, alone or as ``rank,domain``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from node.rules import url as urls
from node.rules.refusal import Refusal

_PLAIN_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Seed:
    """One good line. ``bare``: it was a domain, not a URL."""

    url: str
    rank: int
    bare: bool


@dataclass(frozen=True, slots=True)
class Junk:
    """A line that can't be used, with its number (from 1) and the reason."""

    where: str
    line: int
    why: str


def parse_line(text: str, number: int, where: str) -> Seed | Junk | None:
    """One line of a list; None for an empty line or a comment."""
    text = text.strip("\ufeff \t\r\n")
    if not text or text.startswith("#"):
        return None
    rank = number
    first, comma, rest = text.partition(",")
    if comma and first.isascii() and first.isdigit():
        rank, text = int(first), rest.partition(",")[0].strip().strip('"')
    bare = "://" not in text
    if bare and _PLAIN_HOST.fullmatch(text):
        return Seed(f"https://{text}/", rank, bare=True)
    if bare and (not text or any(c in text for c in " \t/?#@\\")):
        return Junk(where, number, "neither a domain nor a URL")
    parsed = urls.canonical(f"https://{text}/" if bare else text)
    if isinstance(parsed, Refusal):
        return Junk(where, number, f"refused as {parsed}")
    return Seed(parsed, rank, bare)
