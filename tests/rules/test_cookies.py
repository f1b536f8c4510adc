"""Cookies of one redirect chain."""

from __future__ import annotations

import pytest

from node.rules.cookies import MAX_COOKIES, ChainJar


def _jar(*lines: str, host: str = "a.h.test", path: str = "/dir/p") -> ChainJar:
    jar = ChainJar("h.test")
    jar.take(lines, host, path)
    return jar


def test_a_cookie_comes_back_to_the_host_that_set_it() -> None:
    """A cookie wall lets in who brings its cookie."""
    assert _jar("k=v; HttpOnly").header("a.h.test", "/dir/q", https=True) == "k=v"


@pytest.mark.parametrize("host", ["b.h.test", "h.test", "nota.h.test", "x.a.h.test"])
def test_a_host_only_cookie_goes_nowhere_else(host: str) -> None:
    """A cookie without Domain is for its very host."""
    assert _jar("k=v").header(host, "/dir/q", https=True) is None


def test_a_domain_cookie_reaches_subdomains_only() -> None:
    """Domain=a.h.test covers x.a.h.test, and neither its parent nor a look-alike."""
    jar = _jar("k=v; Domain=.A.h.test; Path=/")
    assert jar.header("x.a.h.test", "/", https=True) == "k=v"
    assert jar.header("h.test", "/", https=True) is None
    assert jar.header("xa.h.test", "/", https=True) is None


@pytest.mark.parametrize("domain", ["test", "other.test", "b.h.test", "evil.h.test.other.test"])
def test_a_cookie_for_somebody_else_is_refused(domain: str) -> None:
    """No host can set a cookie for a wider or another domain."""
    jar = ChainJar("h.test")
    assert jar.take([f"k=v; Domain={domain}"], "a.h.test", "/") is False


def test_paths_and_secure_are_kept() -> None:
    """A cookie for /dir is not sent to /dirty, a Secure one not over http; longer paths come first."""
    jar = _jar("a=1; Path=/dir", "b=2; Path=/dir/sub; Secure", "c=3; Path=/")
    assert jar.header("a.h.test", "/dir/sub/x?q=/dir", https=True) == "b=2; a=1; c=3"
    assert jar.header("a.h.test", "/dir/sub/x", https=False) == "a=1; c=3"
    assert jar.header("a.h.test", "/dirty", https=True) == "c=3"


def test_a_deleted_cookie_is_gone() -> None:
    """Max-Age=0 takes a cookie away."""
    jar = _jar("k=v; Path=/")
    assert jar.take(["k=; Path=/; Max-Age=0"], "a.h.test", "/") is True
    assert jar.header("a.h.test", "/", https=True) is None


def test_the_same_cookie_again_changes_nothing() -> None:
    """So a site that redirects to itself with the same cookie is known for a loop."""
    jar = _jar("k=v")
    assert jar.take(["k=v"], "a.h.test", "/dir/p") is False


@pytest.mark.parametrize("line", ["", "=v", "novalue", "k=\x01", "k=v\r\nX: y", "k=" + "x" * 5000])
def test_a_broken_cookie_is_ignored(line: str) -> None:
    """Nothing a server sends becomes a header of ours by way of a cookie."""
    assert _jar(line).header("a.h.test", "/dir/p", https=True) is None


def test_the_jar_is_bounded() -> None:
    """A site that sets cookies without end fills a bounded jar."""
    jar = _jar(*(f"k{i}=v" for i in range(10 * MAX_COOKIES)))
    assert len((jar.header("a.h.test", "/dir/p", https=True) or "").split("; ")) == MAX_COOKIES
