"""Our verdicts on real robots.txt files beside those of a second parser, Protego, each difference explained.

Whatever explains a difference is taken out of the file before Protego reads it; then they must agree.
"""

from __future__ import annotations

import importlib
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from node.rules.robots import parse
from tests.conftest import Score
from tests.rules.sources import source_package
from tests.rules.test_robots import real_files

US = "Milliarde"
LARGEST = 200_000
"""Bytes; larger files take Protego long, and hold nothing of another kind."""
_AGENT = re.compile(r"\s*user-?\s?agent\s*:", re.IGNORECASE)
_RULE = re.compile(r"\s*(dis)?allow\s*:", re.IGNORECASE)


@pytest.fixture(scope="module")
def protego(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Protego's parser, out of its source package."""
    folder = tmp_path_factory.mktemp("protego")
    with tarfile.open(source_package("protego")) as archive:
        # Debian 12's Python has no filters yet
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, [m for m in archive if "/src/protego/" in m.name], **safely)
    (source,) = folder.glob("*/src")
    sys.path.insert(0, str(source))
    try:
        yield importlib.import_module("protego").Protego
    finally:
        sys.path.remove(str(source))


def explained(body: bytes) -> tuple[str, set[str]]:
    """The file without what the two are known to read differently, and what that was."""
    causes = set()
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        causes.add("UTF-16")  # Protego is given text; whoever decodes it as UTF-8 gets no rules
        text = body.decode("utf-16", "replace")
    else:
        text = body.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        causes.add("byte order mark")  # it hides Protego's first line, and with it the first group
        text = text.lstrip("\ufeff")
    lines: list[str] = []
    agents_open = False
    waiting: list[str] = []
    for line in text.splitlines():
        if _AGENT.match(line):
            if waiting and agents_open:
                # a Crawl-delay or Sitemap between agents closes Protego's group; by the RFC only a rule does
                causes.add("open group")
            agents_open = True
            waiting = []
            lines.append(line)
        elif _RULE.match(line):
            agents_open = False
            lines.append(line)
        elif agents_open and line.strip() and not line.lstrip().startswith("#"):
            waiting.append(line)
        else:
            lines.append(line)
    return "\n".join(lines), causes


def paths_of(rules: tuple[str, ...]) -> set[str]:
    """Paths that the rules are about, and two that they hardly are."""
    paths = {"/", "/index.html"}
    for rule in rules[:40]:
        path = rule[1:].replace("*", "x").rstrip("$")
        if path.startswith("/") and path.isascii():
            paths |= {path, path + "y"}
    # Protego always allows robots.txt itself; we never ask about it
    return {path for path in paths if not path.startswith("/robots.txt")}


def test_a_second_parser_agrees_where_it_reads_the_same(protego: Any, score: Score) -> None:
    """All differences have one of four causes, each of which the RFC or Google's rows settle."""
    verdicts = differ = 0
    files_by_cause: Counter[str] = Counter()
    for name, body in real_files():
        if not body or len(body) > LARGEST:
            continue
        ours = parse(body, US)
        theirs = protego.parse(body.decode("utf-8", "replace"))
        text, causes = explained(body)
        mended = protego.parse(text) if causes else theirs
        differs_here = False
        for path in paths_of(ours.paths):
            verdicts += 1
            url = f"http://h.test{path}"
            if ours.allows(path) == theirs.can_fetch(url, US):
                continue
            differ += 1
            differs_here = True
            if ours.allows(path) != mended.can_fetch(url, US):
                # Google's rows: "Allow: /a/index.htm" lets /a/ in, too
                assert any(rule.startswith(f"+{path}index.htm") for rule in ours.paths), (name, path)
                causes.add("index.htm")
        if differs_here:
            assert causes, name
            files_by_cause.update(causes)
    score("robots verdicts equal to Protego's (the rest explained)", verdicts - differ, verdicts)
    assert verdicts > 100_000
    assert 0 < differ < verdicts / 100
    assert set(files_by_cause) == {"byte order mark", "UTF-16", "open group", "index.htm"}
