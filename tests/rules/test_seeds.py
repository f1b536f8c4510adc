"""One line of a seed list."""

from __future__ import annotations

import pytest

from node.rules.seeds import Junk, Seed, parse_line


@pytest.mark.parametrize(
    ("line", "url", "rank", "bare"),
    [
        ("example.com\n", "https://example.com/", 7, True),
        ("1,google.com\r\n", "https://google.com/", 1, True),
        ('12,"example.org"', "https://example.org/", 12, True),
        ("3,example.com,2.5", "https://example.com/", 3, True),
        ("http://h.test/a?b,c", "http://h.test/a?b,c", 7, False),
        ("  https://h.test/p \n", "https://h.test/p", 7, False),
        ("bücher.test", "https://xn--bcher-kva.test/", 7, True),
        ("EXAMPLE.com", "https://example.com/", 7, True),
        ("192.0.2.7", "https://192.0.2.7/", 7, True),
        ("\ufeffexample.com", "https://example.com/", 7, True),
    ],
)
def test_a_good_line_is_understood(line: str, url: str, rank: int, bare: bool) -> None:
    """Plain domains, URLs and rank,domain lists as people publish them; else the line number is the rank."""
    assert parse_line(line, 7, "list") == Seed(url, rank, bare)


@pytest.mark.parametrize("line", ["", "\n", "# comment", "   # comment"])
def test_an_empty_line_is_nothing(line: str) -> None:
    """Comments and empty lines are neither seeds nor junk."""
    assert parse_line(line, 7, "list") is None


@pytest.mark.parametrize(
    "line",
    [
        "two words",
        "ftp://h.test/",
        "javascript:alert(1)",
        "/path",
        "http://",
        "1,",
        "a..b",
        "user@h.test",
        "\x00",
    ],
)
def test_junk_is_named_with_its_line(line: str) -> None:
    """What can't be crawled is reported with where it stands, never guessed at."""
    found = parse_line(line, 7, "list")
    assert isinstance(found, Junk)
    assert (found.where, found.line) == ("list", 7)
    assert found.why
