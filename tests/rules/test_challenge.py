"""Challenges, captchas and block pages are told from pages, also from those that speak of them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules import challenge
from tests.web.behaviours.gates import GATES, ORDINARY, Answer


def gate(answer: Answer) -> str | None:
    """Whose gate an answer is, in the order a fetcher looks."""
    headers = [(name.encode(), text.encode()) for name, text in answer.headers]
    body = answer.body.encode()
    found = challenge.by_headers(answer.status, headers)
    if found is None and challenge.worth_a_look(answer.status, len(body), coded=False):
        found = challenge.by_body(answer.status, body[: challenge.LOOK_BYTES])
    return found


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_recognised(name: str) -> None:
    """Each kind of gate is seen, and called by its maker's name."""
    maker = {
        "aws": "AWS", "cloudfront": "AWS", "redirect": "DataDome", "f5": "F5", "ddos": "DDoS-Guard",
        "captcha": "captcha",
    }.get(name.split("-")[0], name.split("-")[0])  # fmt: skip
    assert (gate(GATES[name]) or "").lower().startswith(maker.lower())


@pytest.mark.parametrize("name", ORDINARY)
def test_a_page_that_speaks_of_gates_is_none(name: str) -> None:
    """Words in articles, sensors in ordinary pages, a captcha in a form, a plain 403: no challenge."""
    assert gate(ORDINARY[name]) is None


@pytest.mark.parametrize(("status", "found"), [(403, True), (503, True), (200, False), (404, False)])
def test_a_title_counts_with_its_status(status: int, found: bool) -> None:
    """A title that any page may have is proof only with the statuses that such gates come with."""
    assert bool(challenge.by_body(status, b"<html><title>Just a moment...</title></html>")) is found


@pytest.mark.parametrize(
    ("status", "size", "coded", "looked"),
    [
        (200, 20_000, False, True),
        (200, 20_001, False, False),
        (200, 8_001, True, False),
        (200, 0, False, False),
        (403, 500_000, True, True),
        (404, 500, False, False),
    ],
)
def test_only_what_could_be_one_is_looked_at(status: int, size: int, coded: bool, looked: bool) -> None:
    """A 200 page is looked at only where it is small, so an ordinary page costs next to nothing."""
    assert challenge.worth_a_look(status, size, coded=coded) is looked


@pytest.mark.parametrize(
    "location",
    [
        b"https://validate.perfdrive.com/?ssa=1",
        b"https://www.google.com/sorry/index?continue=x",
        b"/.well-known/sgcaptcha/?r=%2F",
        b"https://example.queue-it.net/?c=example",
    ],
)
def test_a_redirect_to_a_gate(location: bytes) -> None:
    """A captcha is sometimes behind a redirect; the same address in a page's header means nothing."""
    headers = [(b"Location", location)]
    assert challenge.by_headers(302, headers)
    assert challenge.by_headers(201, headers) is None
    assert challenge.by_headers(302, [(b"Location", b"https://example.test/?next=" + location)]) is None


@given(st.integers(100, 599), st.binary(max_size=9_000))
def test_any_bytes(status: int, start: bytes) -> None:
    """Whatever comes, there is an answer."""
    assert isinstance(challenge.by_body(status, start), str | None)


@pytest.mark.parametrize(
    "unit",
    [
        b"<div ", b"<meta refresh ", b"<script ", b"<title>", b"<form id='captcha-form' ", b"<iframe src='/",
        b"px-captcha", b"_cf_chl_opt=", b"<script>window.kpsdk={", b"incapsula<html><head>", b" ",
    ],
)  # fmt: skip
def test_hostile_bodies_take_no_time(unit: bytes) -> None:
    """No repetition of what patterns look for makes them slow."""
    start = (unit * challenge.LOOK_BYTES)[: challenge.LOOK_BYTES - 30] + b"captcha _cf_chl_ gokuprops"
    began = time.process_time()
    challenge.by_body(403, start)
    assert time.process_time() - began < 0.05
