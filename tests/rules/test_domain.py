"""Registrable domains, held against the public suffix list's own vectors."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules import domain, url
from node.rules.refusal import Refusal
from tests.conftest import Score, missing


def test_the_official_vectors(score: Score) -> None:
    """The list's own examples come out right: wildcards, exceptions, international names in both forms."""
    vectors = files("publicsuffixlist") / "test_psl.txt"
    if not vectors.is_file():
        missing("this build of publicsuffixlist has no test_psl.txt")
    rows = re.findall(r"(?m)^checkPublicSuffix\('(.+?)', (?:null|'(.+?)')\);", vectors.read_text())
    wrong = []
    for name, registrable in rows:
        address = url.canonical(f"http://{name}/")
        if isinstance(address, Refusal):  # a leading dot
            got = None
        else:
            host = url.host(address)
            got = domain.registrable(host)
            if got == host and not registrable:  # a public suffix is its own domain here
                got = None
        expected = url.host(url.parse(f"http://{registrable}/") or "") if registrable else None
        if got != expected:
            wrong.append((name, expected, got))
    score("public suffix vectors", len(rows) - len(wrong), len(rows))
    assert len(rows) >= 77
    assert not wrong


@pytest.mark.parametrize(
    ("host", "registrable"),
    [
        ("www.example.co.uk", "example.co.uk"),
        ("example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("a.b.blogspot.com", "b.blogspot.com"),
        ("someone.github.io", "someone.github.io"),
        ("a.someone.github.io", "someone.github.io"),
        ("github.io", "github.io"),
        ("h.test.", "h.test"),
        ("a.b.h.test.", "h.test"),
        ("localhost", "localhost"),
        ("192.0.2.7", "192.0.2.7"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("www.h2", "www.h2"),
        ("a.b.h2", "b.h2"),
        ("xn--bcher-kva.test", "xn--bcher-kva.test"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
    ],
)
def test_what_is_one_site(host: str, registrable: str) -> None:
    """Hosts of one owner are one domain, those of a shared suffix are not, addresses stand for themselves."""
    assert domain.registrable(host) == registrable
    assert domain.registrable(registrable) == registrable


@settings(deadline=None)
@given(st.text(alphabet="ab.1-x[]:", max_size=20))
def test_any_host_has_a_domain(host: str) -> None:
    """No host raises, and a domain is its own domain and the end of its host."""
    got = domain.registrable(host)
    assert domain.registrable(got) == got or host.endswith("..")
    assert got in host


def test_the_version_of_the_list_is_known() -> None:
    """The fingerprint of a crawl can name the list: it ends in its date."""
    assert re.search(r"20\d{6}$", domain.PSL_VERSION)


def test_remembered_hosts_are_bounded() -> None:
    """However many hosts are seen, no more than stated are kept."""
    for number in range(domain.CACHED_HOSTS + 100):
        domain.registrable(f"h{number}.test")
    assert domain.registrable.cache_info().currsize == domain.CACHED_HOSTS
