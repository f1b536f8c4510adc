"""Which addresses are public, which text is an address, and what connect_to makes of a host."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules.address import is_public, literal
from node.rules.connect_to import ConnectTo

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
    "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255",
    "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::7f00:1",
    "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1",
    "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
    "128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "172.15.255.255", "172.32.0.0",
    "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.112.255",
    "203.0.114.0", "223.255.255.255", "2001:200::", "2001:4860:4860::8888", "2606:4700::1111",
    "2a00:1450::1", "2003::1", "3ffe::1",
]  # fmt: skip
NO_ADDRESS = ["", "h.test", "127.1", "0177.0.0.1", "0x7f.0.0.1", "2130706433", "8.8.8.8 ", "fe80::1%eth0"]


@pytest.mark.parametrize("ip", PRIVATE)
def test_private(ip: str) -> None:
    """No loopback, private, link-local, metadata, multicast or embedding address passes for public."""
    assert not is_public(ip)


@pytest.mark.parametrize("ip", PUBLIC)
def test_public(ip: str) -> None:
    """Addresses just outside the special blocks are not turned away."""
    assert is_public(ip)


@pytest.mark.parametrize("text", NO_ADDRESS)
def test_other_spellings(text: str) -> None:
    """Only canonical spellings are addresses: an odd one can't slip past the table."""
    assert not is_public(text)
    assert literal(text) is None


@given(st.ip_addresses())
def test_agrees_with_python(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Whatever Python knows as not global is not public here either."""
    if is_public(str(address)):
        assert not address.is_private
        assert not address.is_loopback
        assert not address.is_link_local
        assert not address.is_multicast
        assert not address.is_unspecified


@pytest.mark.parametrize(
    ("host", "ip"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:7f00:1]", "::ffff:7f00:1"),
        ("[::1", None),
        ("::1", None),
        ("h1", None),
        ("1.2.3", None),
        ("[h.test]", None),
    ],
)
def test_literal(host: str, ip: str | None) -> None:
    """A URL's host is taken for an address exactly when it spells one."""
    found = literal(host)
    assert found == ip or (found is not None and ip is not None and is_same(found, ip))


def is_same(one: str, other: str) -> bool:
    return ipaddress.ip_address(one) == ipaddress.ip_address(other)


def test_connect_to_precedence() -> None:
    """The most particular rule wins, whatever the order; of equal ones the first."""
    rules = ConnectTo(
        [
            "::127.0.0.9:9",
            ":443:127.0.0.8:8",
            "h.test::127.0.0.7:7",
            "h.test:443:127.0.0.6:6",
            "h.test:443:127.0.0.5:5",
        ]
    )
    assert rules.target("h.test", 443) == ("127.0.0.6", 6)
    assert rules.target("h.test", 80) == ("127.0.0.7", 7)
    assert rules.target("other.test", 443) == ("127.0.0.8", 8)
    assert rules.target("other.test", 80) == ("127.0.0.9", 9)


def test_connect_to_forms() -> None:
    """Brackets, empty parts, upper case and a trailing dot mean what curl's option means by them."""
    rules = ConnectTo(["H.test.:80:[::1]:8080", "[2001:DB8::1]:443:127.0.0.1:", "p.test:80::8080"])
    assert rules.target("h.test", 80) == ("::1", 8080)
    assert rules.target("h.test.", 80) == ("::1", 8080)
    assert rules.target("[2001:db8::1]", 443) == ("127.0.0.1", 443)
    assert rules.target("p.test", 80) == (None, 8080)
    assert rules.target("h.test", 81) is None
    assert ConnectTo([]).target("h.test", 80) is None


@pytest.mark.parametrize(
    "rule", ["", "a:1:b", "a:1:b.test:2", "a:x:127.0.0.1:1", "a:1:127.0.0.1:70000", "a:0:127.0.0.1:1"]
)
def test_connect_to_refuses(rule: str) -> None:
    """A rule that can't be used stops the start with words, not the crawl later."""
    with pytest.raises(ValueError, match="connect_to"):
        ConnectTo([rule])
