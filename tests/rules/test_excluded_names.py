"""Lines of lists of excluded names, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules.excluded_names import parse_line
from node.rules.seeds import Junk


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("example.com", "example.com"),
        ("  Example.COM \r\n", "example.com"),
        ("\ufeffexample.com", "example.com"),
        ("example.com  # asked on 3 May", "example.com"),
        ("*.example.com", "example.com"),
        (".example.com", "example.com"),
        ("example.com.", "example.com"),
        ("https://www.Example.com:8443/path?q#f", "www.example.com"),
        ("under_score.example.com", "under_score.example.com"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("192.0.2.7", "192.0.2.7"),
        ("0xc0.0.2.7", "192.0.2.7"),
        ("[2001:DB8::7]", "[2001:db8::7]"),
        ("co.uk", "co.uk"),
    ],
)
def test_a_name_is_what_it_is_asked_about(line: str, host: str) -> None:
    """However it is written, it becomes the host of a canonical URL, so that it is found."""
    assert parse_line(line, 1, "list") == host


@pytest.mark.parametrize("line", ["", "  \n", "# a comment", "   # example.com"])
def test_what_says_nothing_is_passed_over(line: str) -> None:
    """Empty lines and comments are no mistakes."""
    assert parse_line(line, 1, "list") is None


@pytest.mark.parametrize(
    "line",
    [
        *("com", "*", ".", "localhost", "two words.com", "a,b.com", "foo*.com", "1.2.3.4.5", "a..b"),
        *("http://", "\0", "xn--\u0131.com/", "ftp://example.com/", "x" * 300 + ".com", "a." * 200 + "com"),
    ],
)
def test_a_line_that_is_none_says_so(line: str) -> None:
    """With its number and why; a whole top-level domain is not taken from a list."""
    found = parse_line(line, 17, "list")
    assert isinstance(found, Junk)
    assert (found.where, found.line) == ("list", 17)
    assert found.why


@given(st.text(st.characters(exclude_categories=[]), max_size=80))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_whatever_stands_there(line: str) -> None:
    """Never an exception; a name that is taken is ASCII, has no blank, and means itself."""
    found = parse_line(line, 1, "list")
    if isinstance(found, str):
        assert found.isascii()
        assert not set(found) & set(" \t\r\n/#")
        assert parse_line(found, 1, "list") == found
