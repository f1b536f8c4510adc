"""What a gateway's answer is about, and when its quota begins anew."""

from __future__ import annotations

import pytest

from node.rules.gateway import Signs, Speaker, Told, expand, reset_in_s
from node.rules.headers import Headers

NOW = 1_796_083_200.0  # 2026-12-01T00:00:00Z
PLAIN = Signs()
MARKED = Signs(error=b"x-error")
NAMED = Signs(target_status=b"x-target")
EITHER, GATEWAY, TARGET = Speaker.EITHER, Speaker.GATEWAY, Speaker.TARGET
ERROR: Headers = ((b"X-Error", b"yes"),)
SITE: Headers = ((b"X-Target", b"429"),)


@pytest.mark.parametrize(
    ("signs", "speaker", "status", "headers", "told"),
    [
        # nothing is named: these are the gateway's, all else is the site's
        (PLAIN, EITHER, 429, (), Told.LIMITED),
        (PLAIN, EITHER, 403, (), Told.REFUSED),
        (PLAIN, EITHER, 509, (), Told.QUOTA),
        (PLAIN, EITHER, 404, (), Told.TARGET),
        (PLAIN, EITHER, 503, (), Told.TARGET),
        (PLAIN, EITHER, 200, (), Told.TARGET),
        # its errors are marked
        (MARKED, EITHER, 429, (), Told.TARGET),
        (MARKED, EITHER, 429, ERROR, Told.LIMITED),
        (MARKED, EITHER, 502, ERROR, Told.FAILED),
        (MARKED, EITHER, 407, (), Told.REFUSED),
        (MARKED, TARGET, 429, (), Told.TARGET),
        (MARKED, TARGET, 429, ERROR, Told.LIMITED),
        # the site's answers are marked
        (NAMED, EITHER, 429, SITE, Told.TARGET),
        (NAMED, EITHER, 429, (), Told.LIMITED),
        (NAMED, EITHER, 200, (), Told.FAILED),
        (NAMED, EITHER, 301, (), Told.REFUSED),
        (NAMED, EITHER, 404, (), Told.REFUSED),
        (NAMED, EITHER, 400, (), Told.FAILED),
        # through a tunnel the site speaks, before it stands the proxy
        (PLAIN, TARGET, 429, (), Told.TARGET),
        (PLAIN, TARGET, 403, (), Told.TARGET),
        (PLAIN, GATEWAY, 429, (), Told.LIMITED),
        (PLAIN, GATEWAY, 407, (), Told.REFUSED),
        (PLAIN, GATEWAY, 405, (), Told.REFUSED),
        (PLAIN, GATEWAY, 503, (), Told.FAILED),
        # a status of one's own for a spent quota goes before what it means elsewhere
        (Signs(quota_statuses=frozenset({403})), EITHER, 403, (), Told.QUOTA),
        (Signs(error=b"x-error", quota=b"x-left", quota_value=b"0"), EITHER, 429,
         (*ERROR, (b"X-Left", b" 0 ")), Told.QUOTA),
    ],
)  # fmt: skip
def test_whose_signal_it_is(
    signs: Signs, speaker: Speaker, status: int, headers: Headers, told: Told
) -> None:
    """Each answer goes to its own place: the site's account, the limiter, or the operator."""
    assert signs.told(speaker, status, headers) is told


def test_a_quota_header_means_its_value() -> None:
    """A header that counts down says "used up" only at its end; one without a value says it by itself."""
    left = Signs(quota=b"x-left", quota_value=b"0")
    assert not left.quota_spent(((b"X-Left", b"10"),))
    assert left.quota_spent(((b"X-Left", b"0"),))
    assert Signs(quota=b"x-over").quota_spent(((b"X-Over", b""),))
    assert not PLAIN.quota_spent(((b"X-Over", b""),))


@pytest.mark.parametrize(
    ("value", "status"),
    [(b"404", 404), (b" 200 ", 200), (b"", 502), (b"none", 502), (b"9" * 30, 999_999_999)],
)
def test_the_sites_status(value: bytes, status: int) -> None:
    """It is what the header says; where that is no number, what came."""
    assert NAMED.status_of_target(502, ((b"X-TARGET", value),)) == status


@pytest.mark.parametrize(
    ("value", "form", "seconds"),
    [
        ("60", "seconds", 60),
        (" 0.5 ", "seconds", 0.5),
        (str(int(NOW) + 90), "unix", 90),
        (f"{NOW + 1.5}", "unix", 1.5),
        ("Tue, 01 Dec 2026 00:02:00 GMT", "date", 120),
        ("2026-12-01T00:02:00Z", "date", 120),
        ("2026-12-01T01:02:00+01:00", "date", 120),
        ("2026-12-01 00:02:00", "date", 120),
        ("2027-01-01", "date", 31 * 86_400),
        ("", "seconds", None),
        ("soon", "date", None),
        ("-5", "seconds", None),
        ("0", "seconds", None),
        ("60", "unix", None),
        ("9" * 15, "seconds", None),
        ("2025-12-01T00:00:00Z", "date", None),
    ],
)
def test_when_the_quota_begins_anew(value: str, form: str, seconds: float | None) -> None:
    """The form agreed on is read; what is past, absurd or something else is not believed."""
    assert reset_in_s(value, form, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_the_address_of_a_call() -> None:
    """URL and key are percent-encoded whole, so neither can reach into the other."""
    url = "https://example.test/a?b=c&key=x#{key}"
    call = expand("https://gw.test/?key={key}&url={url}", url, "k&{url}/é")
    assert call == (
        "https://gw.test/?key=k%26%7Burl%7D%2F%C3%A9"
        "&url=https%3A%2F%2Fexample.test%2Fa%3Fb%3Dc%26key%3Dx%23%7Bkey%7D"
    )
