"""What sites say about the use of their pages: read as the drafts have it, leniently, and a denial wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.rules import robots, usage, usage_read
from node.rules.html import extract
from node.rules.usage import Kind, Place, Purpose, Said, denial, denied_in
from node.rules.usage_read import in_headers, in_page, of_meta

US = "Milliarde"
TRAIN, SEARCH, INPUT, MINE, ARCHIVE = (
    Purpose.TRAIN,
    Purpose.SEARCH,
    Purpose.INPUT,
    Purpose.MINE,
    Purpose.ARCHIVE,
)


@pytest.mark.parametrize(
    ("preferences", "denied"),
    [
        ("train-ai=n", {TRAIN}),
        ("train-ai=y, search=n", {SEARCH}),
        ("search=yes, ai-train=no", {TRAIN}),
        ("search=yes,ai-train=no,use=reference", {TRAIN}),
        ("ai-input=no", {INPUT}),
        ("Train-AI = N ;x=1 , search=y;why", {TRAIN}),
        ("train-ai=n, train-ai=y", set()),
        ("train-ai=y, train-ai=n", {TRAIN}),
        ("bots=n", set(Purpose)),
        ("train-ai", set()),
        ("train-ai=?0, train-ai=0, search=never, unknown=n", set()),
        ("", set()),
        (",,=n,;", set()),
    ],
)
def test_words_deny_what_the_table_says(preferences: str, denied: set[Purpose]) -> None:
    """Each word is about the purposes of one table; n and no deny, of equal words the last counts."""
    assert denied_in(preferences) == denied


def _said(text: str, path: str) -> list[str]:
    return [each.text for each in robots.parse(text.encode(), US).said(path)]


def test_the_longest_path_of_a_group_counts() -> None:
    """The example of draft-ietf-aipref-attach: a path of its own takes the place of what holds elsewhere."""
    text = (
        "User-Agent: *\nAllow: /\nDisallow: /never/\nContent-Usage: train-ai=n\n"
        "Content-Usage: /ai-ok/ train-ai=y\n\n"
        "User-Agent: ExampleBot\nAllow: /\nContent-Usage: train-ai=y\n"
    )
    assert _said(text, "/test") == ["Content-Usage: train-ai=n"]
    assert _said(text, "/ai-ok/test") == ["Content-Usage: /ai-ok/ train-ai=y"]
    rules = robots.parse(text.encode(), "ExampleBot")
    assert [each.text for each in rules.said("/test")] == ["Content-Usage: train-ai=y"]


def test_kinds_do_not_hide_each_other() -> None:
    """A path in Content-Usage says nothing about Content-Signal; of one path all lines hold."""
    text = (
        "License: https://h.test/rsl.xml\nUser-agent: *\nContent-Signal: ai-train=no\n"
        "Content-Usage: /a search=y\nContent-Usage: /a search=n\nContent-Usage: /a/b* train-ai=n\n"
    )
    assert _said(text, "/a/x") == [
        "Content-Usage: /a search=y",
        "Content-Usage: /a search=n",
        "Content-Signal: ai-train=no",
        "License: https://h.test/rsl.xml",
    ]
    assert _said(text, "/a/b?c")[0] == "Content-Usage: /a/b* train-ai=n"
    said = robots.parse(text.encode(), US).said("/a/x")
    against = denial(said, {SEARCH})
    assert against is not None
    assert (against.name, against.text) == ("robots:content_usage", "Content-Usage: /a search=n")
    assert denial(said, {ARCHIVE}) is None


def test_signals_survive_the_store() -> None:
    """What a process reads back of robots.txt from Redis says what the file said."""
    text = b"User-agent: *\nDisallow: /x\nContent-Signal: /s search=no\nContent-Usage: train-ai=n\n"
    rules = robots.parse(text, US)
    kept = robots.Rules.loads(rules.dumps())
    assert kept == rules
    for path in ("/s/1", "/"):
        assert kept.said(path) == rules.said(path) != ()
    # as an older process has written it
    assert robots.Rules.loads(b"-/x\n=Content-Usage: train-ai=n").said("/")[0].denies == {TRAIN}


HEADERS = (
    (b"Content-Type", b"text/html"),
    (b"content-usage", b"train-ai=n, search=y"),
    (b"TDM-Reservation", b"1"),
    (b"tdm-policy", b"https://h.test/policy.json"),
    (b"X-Robots-Tag", b"noindex, otherbot: noai"),
    (b"x-robots-tag", b"milliarde: noarchive, noai"),
    (b"Link", b'</a.css>; rel=preload, <https://h.test/l.xml>; rel="license"; type="application/rsl+xml"'),
    (b"Crawler-Price", b"USD 0.01"),
)


def test_headers_are_read() -> None:
    """All ways of saying it in a header are known, each with what it denies."""
    said = in_headers(HEADERS, US)
    assert [(each.kind, each.text, set(each.denies)) for each in said] == [
        (Kind.CONTENT_USAGE, "Content-Usage: train-ai=n, search=y", {TRAIN}),
        (Kind.TDM, "TDM-Reservation: 1", {MINE, TRAIN, INPUT}),
        (Kind.TDM, "TDM-Policy: https://h.test/policy.json", set()),
        (Kind.ROBOTS_TAG, "X-Robots-Tag: milliarde: noarchive, noai", {ARCHIVE, TRAIN, INPUT}),
        (Kind.LICENSE, "License: https://h.test/l.xml", set()),
        (Kind.PRICE, "Crawler-Price: USD 0.01", set()),
    ]
    assert {each.place for each in said} == {Place.HEADER}
    assert usage.price(said) == "USD 0.01"


@pytest.mark.parametrize(
    "header",
    [
        (b"Link", b"<https://creativecommons.org/l/by/4.0/>; rel=license"),
        (b"Link", b"</rsl.xml>; rel=preload; type=application/rsl+xml"),
        (b"X-Robots-Tag", b"noindex, nofollow, max-snippet: 20"),
        (b"X-Robots-Tag", b"otherbot: noai, noarchive"),
        (b"X-Content-Usage", b"train-ai=n"),
    ],
)
def test_what_says_nothing_of_the_use_is_passed_over(header: tuple[bytes, bytes]) -> None:
    """Other licences, other directives, other people's directives: nothing is recorded."""
    assert in_headers((header,), US) == ()


def test_reservation_is_one() -> None:
    """TDMRep: 1 reserves, 0 and anything else does not; both are recorded."""
    for value, denies in (("1", True), (" 1 ", True), ("0", False), ("true", False)):
        said = in_headers(((b"tdm-reservation", value.encode()),), US)
        assert bool(said[0].denies) is denies, value


PAGE = (
    '<!doctype html><head><META NAME="TDM-Reservation" content=1><meta name=tdm-policy content="/p.json">'
    '<meta name=robots content="noai, noimageai, index"><meta name=milliarde content=noarchive>'
    '<meta name=otherbot content=noml><link rel="license" type="application/rsl+xml" href="/l.xml">'
    "<link rel=license href=/cc></head><body>noml tdm-reservation</body>"
)


def test_pages_are_read_by_parsers_and_before() -> None:
    """What a parser finds in a page is what is found in its first bytes, if it could deny anything."""
    parsed = extract(PAGE.encode(), "https://h.test/", "utf-8", US).said
    assert [(each.kind, each.text) for each in parsed] == [
        (Kind.TDM, "TDM-Reservation: 1"),
        (Kind.TDM, "TDM-Policy: /p.json"),
        (Kind.ROBOTS_TAG, "robots: noai, noimageai, index"),
        (Kind.ROBOTS_TAG, "milliarde: noarchive"),
        (Kind.LICENSE, "License: /l.xml"),
    ]
    assert {each.place for each in parsed} == {Place.META}
    assert list(in_page(PAGE.encode(), US)) == parsed[:-1]
    assert in_page(b"<p>nothing is said here about the use</p>" * 1_000, US) == ()


def test_only_elements_speak() -> None:
    """Words in text, in scripts and in comments are no statements."""
    page = b"<!-- <meta name=robots content=noai> --><script>'<meta name=robots content=noai>'</script>noai"
    assert in_page(page, US) == ()
    assert extract(page, "https://h.test/", "utf-8", US).said == []


def test_everything_is_bounded() -> None:
    """No site makes us keep more than a few short statements; a denial among them is not lost."""
    many = b"User-agent: *\n" + b"Content-Signal: search=yes\n" + b"".join(
        b"Content-Usage: x%d=y, %s\n" % (i, b"z" * 600) for i in range(40)
    ) + b"Content-Usage: train-ai=n\n"  # fmt: skip
    said = robots.parse(many, US).said("/")
    assert len(said) == usage.MAX_STATEMENTS
    assert denial(said, {TRAIN}) is not None
    assert all(len(each.text) <= usage.MAX_CHARS for each in said)
    headers = [(b"tdm-policy", b"x" * 9_000)] * 50 + [(b"tdm-reservation", b"1")]
    said = in_headers(headers, US)
    assert (len(said), denial(said, {MINE}) is not None) == (usage.MAX_STATEMENTS, True)
    page = b"<meta name=tdm-policy content=x>" * 100
    assert len(extract(page, "https://h.test/", "utf-8", US).said) == usage.MAX_STATEMENTS


def test_control_characters_stay_out() -> None:
    """A statement is a line: nothing in it can begin another one, in a log or on a terminal."""
    (said,) = in_headers(((b"content-usage", b"train-ai=n\x1b[31m\x85\r\nX: y"),), US)
    assert said.text.isprintable()


@given(st.lists(st.tuples(st.sampled_from(sorted(usage_read._HEADERS)), st.binary(max_size=80)), max_size=5))
def test_no_header_breaks_it(headers: list[tuple[bytes, bytes]]) -> None:
    """Whatever a header holds, it is read without an exception, into bounded text."""
    said: Said = in_headers(headers, US)
    assert all(each.text.isprintable() for each in said)


@given(st.text(max_size=80), st.text(max_size=40))
def test_no_robots_txt_breaks_it(value: str, path: str) -> None:
    """Nor does anything in robots.txt or in a meta."""
    text = f"User-agent: *\nContent-Usage: {value}\nContent-Signal: /{value}\n"
    assert all(each.text.isprintable() for each in robots.parse(text.encode(), US).said("/" + path))
    of_meta("robots", value)
    of_meta("tdm-reservation", value)
