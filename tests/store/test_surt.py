"""SURT keys, held against the library that pywb and cdxj-indexer use."""

from __future__ import annotations

import random

import pytest
import surt as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from node.store.surt import surt

SESSION = "0123456789abcdef0123456789ABCDEF"
ASP = "abcdefghijklmnopqrstuvwx"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.example.com/", "com,example)/"),
        ("http://www2.Example.com", "com,example)/"),
        ("https://example.com:443/x", "com,example)/x"),
        ("http://example.com:8080/x/", "com,example:8080)/x"),
        ("http://user:pw@example.com/A/B?b=2&a=1#top", "com,example)/a/b?a=1&b=2"),
        ("http://127.0.0.1/x", "1,0,0,127)/x"),
        ("http://[2001:db8::1]:81/x", "2001:db8::1:81)/x"),
        ("http://xn--bcher-kva.example/%C3%BC", "example,xn--bcher-kva)/%c3%bc"),
        ("http://example.com/a//b/?", "com,example)/a/b"),
        ("http://example.com/%7Eu/%2525", "com,example)/~u/%25"),
        (f"http://example.com/a?x=1&PHPSESSID={SESSION}&y=2", "com,example)/a?x=1&y=2"),
        (f"http://example.com/(S({ASP}))/x.aspx", "com,example)/x.aspx"),
        ("http://example.com/?a-b=0&a=1", "com,example)/?a=1&a-b=0"),
    ],
)
def test_keys(url: str, key: str) -> None:
    """The rules, one by one."""
    assert surt(url) == key == reference.surt(url)


def test_keys_equal_those_of_the_tools() -> None:
    """A look-up in our index comes with a key made by pywb: it must be the same, byte for byte."""
    words = [
        *"aB/~?&=;()+,:@!$'*-_|[].",
        "%41",
        "%2f",
        "%25",
        "%C3",
        "%bc",
        "%00",
        "%20",
        "%22",
        ".b",
        "..c",
    ] * 3
    words += ["x.aspx", "%2525", "%23", f"jsessionid={SESSION}&", f"PHPSESSID={SESSION}", f"sid={SESSION}&"]
    words += [f"ASPSESSIONIDABCDEFGH={ASP}&", "cfid=1&cftoken=2&", f"(S({ASP}))/"]
    hosts = [
        "h.test",
        "www.h.test",
        "www12.a.b.co.uk",
        "h.test:81",
        "192.0.2.7",
        "[2001:db8::1]",
        "xn--bcher-kva.test",
    ]
    chance = random.Random(20261201)
    for _ in range(10_000):
        rest = "".join(chance.choices(words, k=chance.randrange(12)))
        url = f"{chance.choice(['http', 'https'])}://{chance.choice(hosts)}/{rest}"
        assert surt(url) == reference.surt(url), url


@given(st.text(st.characters(exclude_categories=[])) | st.from_regex(r"https?://[^/]{0,9}/.{0,20}"))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_key_is_one_word_whatever_the_url(url: str) -> None:
    """A space or a line feed in a key would break the index."""
    key = surt(url)
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key
