"""robots.txt: what is read of it, what it allows, what a response without one means."""

from __future__ import annotations

import json
import math
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.rules import robots, robots_read
from node.rules.robots import ALLOW_ALL, DENY_ALL, Access, Rules, of_response, parse
from tests.conftest import Score
from tests.rules.sources import source_package

US = "us"


def allowed(text: str | bytes, path: str, token: str = US) -> bool:
    """The answer of the whole way: parse, dump, load, ask."""
    body = text.encode() if isinstance(text, str) else text
    return Rules.loads(parse(body, token).dumps()).allows(path)


def path_of(url: str) -> str:
    """Path and query of a URL in Google's rows, as text (some are not valid URLs)."""
    rest = url.partition("#")[0].partition("://")[2] or url
    starts = [at for at in (rest.find("/"), rest.find("?")) if at >= 0]
    path = rest[min(starts) :] if starts else "/"
    return path if path.startswith("/") else "/" + path


def test_google_rows(shared_data: Path, score: Score) -> None:
    """Google's published expectations hold, all 400 of them."""
    rows = json.loads((shared_data / "robots_spec_rows.json").read_text(encoding="utf-8"))
    wrong = [
        row
        for row in rows
        for _file, agent, text, url, verdict in [row]
        if allowed(text.encode("utf-8", "surrogateescape"), path_of(url), agent) != (verdict == "ALLOWED")
    ]
    score("robots.txt rows (Google)", len(rows) - len(wrong), len(rows))
    assert not wrong, wrong[:3]


def real_files() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(source_package("protego")) as archive:
        for member in archive:
            if "/tests/test_data/" in member.name and (file := archive.extractfile(member)):
                yield member.name.rpartition("/")[2], file.read()


def test_real_files(score: Score) -> None:
    """4,231 real files are read without an exception, none takes long, and all survive the store."""
    count = 0
    slow = []
    for name, body in real_files():
        start = time.process_time()
        rules = parse(body, US)
        rules.allows("/some/page.html?id=3")
        took = time.process_time() - start
        count += 1
        if took > 0.050:
            # One more chance: the machine may have been busy with others.
            start = time.process_time()
            parse(body, US).allows("/some/page.html?id=3")
            took = min(took, time.process_time() - start)
        if took > 0.050:
            slow.append((name, took))
        assert Rules.loads(rules.dumps()) == rules, name
        assert len(rules.dumps()) < 100_000, name
    score("real robots.txt read in under 50 ms", count - len(slow), count)
    assert count == 4_231
    assert len(slow) <= 1, slow


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b""])
def test_byte_order_mark_hides_no_group(mark: bytes) -> None:
    """R01: a UTF-8 BOM, even a torn one, is not part of the first key."""
    assert not allowed(mark + b"User-agent: *\nDisallow: /\n", "/x")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_file_is_read(encoding: str) -> None:
    """A file saved as UTF-16 means what its author wrote."""
    text = "\ufeff" * (encoding != "utf-16") + "User-agent: *\r\nDisallow: /geheim\r\n"
    assert not allowed(text.encode(encoding), "/geheim/x")
    assert allowed(text.encode(encoding), "/x")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n", "\n\n"])
def test_line_ends_are_equal(end: str) -> None:
    """R02: LF, CR LF and CR alone give the same rules; empty lines end nothing."""
    lines = ["User-agent: *", "Disallow: /a", "", "Allow: /a/b", "Crawl-delay: 3", ""]
    assert parse(end.join(lines).encode(), US) == Rules(("-/a", "+/a/b"), 3.0)


@pytest.mark.parametrize("rule", ["http://x.test/", "https://h.test/private/", "x", "?a", "", "$"])
def test_rule_that_is_no_path_has_no_effect(rule: str) -> None:
    """R04: only what starts with / or * is a rule; an absolute URL blocks nothing."""
    assert parse(f"User-agent: *\nDisallow: {rule}\n".encode(), US) == ALLOW_ALL


@pytest.mark.parametrize("rule", ["/?", "/*?"])
def test_question_mark_is_literal(rule: str) -> None:
    """R05: a rule about queries denies queries, not the site."""
    text = f"User-agent: *\nDisallow: {rule}\n"
    assert allowed(text, "/")
    assert allowed(text, "/a")
    assert not allowed(text, "/?a=1")
    assert allowed(text, "/b?a=1") == (rule == "/?")


@pytest.mark.parametrize("token", ["A", "b", "B"])
def test_stacked_agents_share_a_group(token: str) -> None:
    """R07: every agent named above the rules is bound by them."""
    assert not allowed("User-agent: A\nUser-agent: B\nDisallow: /", "/x", token)


@pytest.mark.parametrize("order", [0, 1])
def test_own_group_excludes_the_general_one(order: int) -> None:
    """R08: who is named follows its own groups only, whichever comes first."""
    groups = ["User-agent: us\nDisallow: /s\n", "User-agent: *\nDisallow: /p\n"]
    text = "\n".join(groups[order:] + groups[:order])
    assert not allowed(text, "/s")
    assert allowed(text, "/p")
    assert not allowed(text, "/p", "other")


@pytest.mark.parametrize("line", ["Crawl-delay: 2", "Sitemap: http://h.test/s", "Host: x", "Noindex: /", ""])
def test_only_rules_end_a_list_of_agents(line: str) -> None:
    """R10: a line that is no rule, between two agents, leaves them in one group."""
    text = f"User-agent: us\n{line}\nUser-agent: b\nDisallow: /x\n"
    assert not allowed(text, "/x")
    assert not allowed(text, "/x", "b")


def test_longest_rule_wins_and_groups_merge() -> None:
    """R11: the most specific rule decides, Allow wins a tie, groups of one agent are one."""
    text = "User-agent: us\nDisallow: /\nAllow: /pub/\n\nUser-agent: x\n\nUser-agent: us\nDisallow: /pub/no\n"
    assert allowed(text, "/pub/x")
    assert not allowed(text, "/pub/now")
    assert not allowed(text, "/")
    assert allowed("User-agent: *\nDisallow: /a\nAllow: /a\n", "/a/b")
    assert allowed("User-agent: *\nAllow: /a*/c\nDisallow: /a/b/\n", "/a/b/c")


def test_stars_and_dollar() -> None:
    """* is any run, $ at the end is the end, anywhere else an ordinary character."""
    text = (
        "User-agent: *\nDisallow: /*.php$\nDisallow: /a*b*c\nDisallow: /x$\nDisallow: /p$q\nDisallow: /d/*$\n"
    )
    denied = ["/i.php", "/i?x=.php", "/abc", "/a-b-b-cd", "/x", "/p$q1", "/d/", "/d/e", "/.php.php"]
    free = ["/i.php5", "/i.php?x", "/acb", "/ab", "/xy", "/x?", "/p", "/d", "/php"]
    assert [path for path in denied if allowed(text, path)] == []
    assert [path for path in free if not allowed(text, path)] == []


def test_tail_does_not_overlap_what_came_before() -> None:
    """What stands after the last star must come after what stands before it."""
    assert allowed("User-agent: *\nDisallow: /ab*ba$\n", "/aba")
    assert not allowed("User-agent: *\nDisallow: /ab*ba$\n", "/abba")


def test_encoded_star_and_dollar_are_literal() -> None:
    """R13: %2A and %24 in a rule are the characters, in whichever way the URL spells them."""
    text = "User-agent: *\nDisallow: /f-%2A.html\nDisallow: /foo-%24\n"
    for path in ("/f-*.html", "/f-%2a.html", "/f-%2A.html", "/foo-$", "/foo-%24", "/foo-%24x"):
        assert not allowed(text, path), path
    for path in ("/f-x.html", "/foo-", "/foo-x"):
        assert allowed(text, path), path


@pytest.mark.parametrize("rule", ["/könyvek/", "/k%C3%B6nyvek/", "/k%c3%b6nyvek/"])
@pytest.mark.parametrize("path", ["/könyvek/1", "/k%C3%B6nyvek/1", "/k%c3%b6nyvek/1"])
def test_spellings_of_a_denied_path_are_one(rule: str, path: str) -> None:
    """R14: a Disallow holds for the raw and the encoded spelling, in rule and URL alike."""
    assert not allowed(f"User-agent: *\nDisallow: {rule}\n", path)


@pytest.mark.parametrize(
    ("rule", "path"),
    [("/%7Ejoe/", "/~joe/x"), ("/~joe/", "/%7ejoe/x"), ("/a b", "/a%20b"), ("/%62%61", "/ba"),
     ("/ba", "/%62a"), ("/a'b|", "/a%27b%7C"), ("/?f[0]=", "/?f%5B0%5D=1"), ("/a-b", "/a%2Db")],
)  # fmt: skip
def test_octets_compare_decoded(rule: str, path: str) -> None:
    """RFC 9309 section 2.2.2: percent-encoding of a character that needs none makes no difference."""
    assert not allowed(f"User-agent: *\nDisallow: {rule}\n", path)


def test_reserved_octets_stay_apart() -> None:
    """An encoded slash or question mark is not a slash or question mark."""
    assert allowed("User-agent: *\nDisallow: /a/b\n", "/a%2Fb")
    assert allowed("User-agent: *\nDisallow: /a?b\n", "/a%3Fb")
    assert not allowed("User-agent: *\nDisallow: /a%2fb\n", "/a%2Fb")


def test_doubt_about_an_allow_is_settled_by_not_fetching() -> None:
    """An Allow reaches what encoders differ about, not letters that somebody chose to encode."""
    text = "User-agent: *\nDisallow: /\nAllow: /%7Ejoe\nAllow: /k%c3%b6\nAllow: /%62az\nAllow: /f-%2A\n"
    for path in ("/~joe/", "/%7ejoe", "/k%C3%B6/", "/%62az", "/f-*", "/f-%2a"):
        assert allowed(text, path), path
    for path in ("/baz", "/kö"):
        assert not allowed(text, path), path


def test_directory_is_its_index_page() -> None:
    """Allowing a directory's index page allows the directory, by either address, and no more."""
    text = "User-agent: *\nDisallow: /\nAllow: /d/index.html\n"
    assert [allowed(text, path) for path in ("/d/", "/d/index.html", "/d/x", "/d")] == [
        True,
        True,
        False,
        False,
    ]


def test_delay_before_any_agent_is_nobodys() -> None:
    """R16: a stray Crawl-delay costs its own line only."""
    rules = parse(b"Crawl-delay: 1\n\nUser-agent: *\nDisallow: /a\n", US)
    assert rules == Rules(("-/a",), None)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1.5", 1.5), ("10", 10.0), (".5", 0.5), ("2.", 2.0), ("1e9", 86_400.0), ("1e999", 86_400.0),
     ("86400", 86_400.0), ("100000", 86_400.0), ("1e1", 10.0), ("+3", 3.0), ("7 # seconds", 7.0)],
)  # fmt: skip
def test_usable_delays(value: str, seconds: float) -> None:
    """R17, R19: a number above zero is honoured, up to a day."""
    assert parse(f"User-agent: *\nCrawl-delay: {value}\n".encode(), US).crawl_delay_s == seconds


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        "-1",
        "1,5",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "",
        "0",
        "0.0",
        "1e-999",
        "1_0",
        "٣",
        "5s",
        "0x5",
        "1 2",
    ],
)
def test_unusable_delays(value: str) -> None:
    """R17, R20: anything else says nothing, so our own floor holds."""
    assert parse(f"User-agent: *\nCrawl-delay: {value}\n".encode(), US).crawl_delay_s is None


def test_delay_belongs_to_the_agents_above_it() -> None:
    """A delay is for who is named before it in its group; of several, the longest."""
    text = b"User-agent: b\nCrawl-delay: 9\nUser-agent: us\nDisallow: /x\nUser-agent: *\nCrawl-delay: 7\n"
    assert parse(text, US) == Rules(("-/x",), None)
    assert parse(text, "b").crawl_delay_s == 9
    assert parse(text, "other").crawl_delay_s == 7
    assert parse(b"User-agent: us\nCrawl-delay: 3\nCrawl-delay: 9\nCrawl-delay: 5\n", US).crawl_delay_s == 9


def test_named_without_rules_means_all_is_allowed() -> None:
    """Who is named and told nothing is free, whatever the others are told."""
    assert allowed("User-agent: *\nDisallow: /\n\nUser-agent: us\nCrawl-delay: 1\n", "/x")
    assert allowed("User-agent: us\nDisallow:\n\nUser-agent: *\nDisallow: /\n", "/x")


@pytest.mark.parametrize(
    ("line", "named"),
    [("us", True), ("US", True), ("us/2.0", True), ("us Bot", True), ("us*", True), ("us2", True),
     ("usa", False), ("us-news", False), ("us_", False), ("xus", False), ("* us", False), ("", False)],
)  # fmt: skip
def test_product_token_is_matched_whole(line: str, named: bool) -> None:
    """RFC 9309 section 2.2.1: the token at the start of the line counts, all of it, in any case."""
    text = f"User-agent: {line}\nDisallow: /us\n\nUser-agent: *\nDisallow: /all\n"
    assert allowed(text, "/us") != (named or line == "* us")
    assert allowed(text, "/all") == named


def test_our_group_beats_an_allowing_general_one() -> None:
    """R32: the rules of the agent we are, not of the agent *."""
    assert not allowed("User-agent: us\nDisallow: /\n\nUser-agent: *\nAllow: /\n", "/")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>\xe2\x80\xa6User-agent:*<br>Disallow: /<br>",
        b"<!doctype html>\n<body>\nUser-agent: *<br>\nDisallow: /<br>\n</body>",
        b"<html>" + b"<p style='a:b'>User-agent: * Disallow: /</p>" * 10_000,
    ],
)
def test_html_page_is_no_robots_txt(body: bytes) -> None:
    """R26: an HTML page has no valid line, so it allows."""
    assert of_response(200, body, US) == robots.Verdict(Access.READ, ALLOW_ALL)


def test_tags_between_lines_cost_only_themselves() -> None:
    """A file with a stray <br /> in every other line still says what its valid lines say."""
    assert not allowed("User-agent: *\n<br />\nDisallow: /\n<br />\n", "/x")


@pytest.mark.parametrize(
    "text", ["İUser-agent: *\nDisallow: /x", "KUser-agent: *\nDisallow: /x", "\u212a: *\n"]
)
def test_case_folding_changes_no_length(text: str) -> None:
    """R34: characters that change length in lower case raise nothing, and open no group."""
    assert allowed(text, "/x")


def test_missing_colon_and_misspellings() -> None:
    """What Google forgives we forgive, as a site that meant to deny us did."""
    assert not allowed("user-agent us\ndisallow /\n", "/x")
    assert not allowed("Useragent : us\nDissallow : /\n", "/x")
    assert allowed("User-agent: us\ndisallow / x\n", "/x")


def test_control_characters_are_no_trouble() -> None:
    """NUL and friends around a value are blanks, inside it octets like others."""
    assert not allowed(b"User-agent:\0 *\0\nDisallow:\x0b/a\0b\n", "/a%00b")


def test_cut_at_the_last_whole_line() -> None:
    """R29: rules before the limit hold; the line that the limit tears is not believed."""
    body = b"User-agent: *\nDisallow: /a\n" + b"# comment\n" * 52_000
    body += b"#" * (robots.MAX_BODY_BYTES - len(body) - len(b"\nDisallow: /")) + b"\nDisallow: /"
    assert len(body) == robots.MAX_BODY_BYTES
    for text in (body, body + b"private\n" + b"x" * 10_000_000):
        assert parse(text, US) == Rules(("-/a",))
    assert parse(body.replace(b"\n", b"\r"), US) == Rules(("-/a",))


def test_no_line_end_within_the_limit() -> None:
    """A giant line is no rule."""
    assert parse(b"Disallow: /" * 100_000, US) == ALLOW_ALL


@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: b\nDisallow: /b\n" * 20_000,
        b"User-agent: *\n" * 40_000,
        b"\n" * 520_000,
        b":" * 500_000,
        b"a b\n" * 130_000,
        b"User-agent: *\n" + b"Disallow: /*a*b\n" * 40_000,
        b"User-agent: *\nDisallow: /" + b"*a" * 250_000,
        b"User-agent: *\n" + b"".join(b"Disallow: /*a%d\n" % i for i in range(40_000)),
        b"User-agent: *\n" + b"".join(b"Disallow: /" + b"*a" * 40 + b"%d\n" % i for i in range(5_000)),
        b"User-agent: *\n"
        + b"".join(b"Disallow: /*%bb%d%b\n" % (b"a" * 50, i, b"a" * 50) for i in range(5_000)),
        b"User-agent: *\nDisallow: /\n" + b"".join(b"Allow: /%d\n" % i for i in range(40_000)),
    ],
    ids=lambda body: body[:40].decode(),
)
def test_hostile_files_end_soon(body: bytes) -> None:
    """R28: no file makes parsing or matching slow (each takes under 50 ms here; the bound is lax)."""
    start = time.process_time()
    parse(body, US).allows("/" + "a" * 2_047)
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("path", ["http://[::1/x", "", "*", "\ud800", "/%", "/%zz%E9", "x" * 100_000, "/\0"])
def test_odd_paths_raise_nothing(path: str) -> None:
    """R31: whatever is asked, there is an answer."""
    text = "User-agent: *\nDisallow: /x%62*y$\nAllow: /%zz\nDisallow: /%E9\nAllow: /*a\n"
    assert allowed(text, path) in (True, False)


def test_robots_txt_as_a_page_is_a_path_like_others() -> None:
    """Fetching robots.txt needs no leave, so the rules are only asked about links to it."""
    assert not DENY_ALL.allows("/robots.txt")
    assert ALLOW_ALL.allows("/robots.txt")


def test_sitemaps_and_signals() -> None:
    """Sitemaps are the site's; a signal is its group's, or everybody's before the first group."""
    text = (
        "License: https://h.test/rsl.xml\nContent-Usage: train-ai=n\nSitemap: http://h.test/a.xml\n"
        "User-agent: *\nContent-Signal: search=yes, ai-train=no\nAllow: /\n"
        "User-agent: us\nSITEMAP : http://h.test/Ä.xml\nsitemap: http://h.test/a.xml\n"
        "Content-usage: /x search=n\n"
    )
    rules = parse(text.encode(), US)
    assert rules.sitemaps == ("http://h.test/a.xml", "http://h.test/Ä.xml")
    assert rules.content_signals == (
        "Content-Usage: /x search=n",
        "License: https://h.test/rsl.xml",
        "Content-Usage: train-ai=n",
    )
    assert "Content-Signal: search=yes, ai-train=no" in parse(text.encode(), "other").content_signals
    assert Rules.loads(rules.dumps()) == rules
    assert parse(text.encode(), US, max_sitemaps=1).sitemaps == ("http://h.test/a.xml",)


def test_what_is_kept_is_bounded() -> None:
    """No site makes us keep more than a few sitemaps and signals."""
    text = "User-agent: *\n" + "".join(
        f"Sitemap: /{i}\nContent-Signal: {i}={'y' * 900}\n" for i in range(500)
    )
    rules = parse(text.encode(), US)
    assert len(rules.sitemaps) == robots.MAX_SITEMAPS
    assert len(rules.content_signals) == robots_read.MAX_SIGNALS
    assert len(rules.dumps()) < 10_000


def test_dumps_is_small() -> None:
    """What Redis keeps per origin: nothing for "all allowed", less than the file else."""
    assert ALLOW_ALL.dumps() == b""
    assert Rules.loads(b"") == ALLOW_ALL
    assert DENY_ALL.dumps() == b"-/"
    assert parse(b"User-agent: *\nAllow: /a\nAllow: /b\n", US).dumps() == b""
    text = "User-agent: *\n" + "".join(f"Disallow: /category/{i}/print\n" for i in range(200))
    assert len(parse(text.encode(), US).dumps()) < len(text) / 6


@pytest.mark.parametrize("packed", [b"x", b"-/\nx", b"\0abc", b"~abc"])
def test_loads_refuses_what_dumps_did_not_make(packed: bytes) -> None:
    """A broken value in the store is an error, not "all is allowed"."""
    with pytest.raises(ValueError, match=r"."):
        Rules.loads(packed)


@pytest.mark.parametrize(
    ("status", "access"),
    [(status, Access.READ) for status in (200, 204, 206)]
    + [(status, Access.ABSENT) for status in (400, 401, 403, 404, 410, 451)]
    + [(status, Access.UNAVAILABLE) for status in (429, 500, 503, 599, 302, 304, 100, 999, None)],
)
def test_what_a_response_means(status: int | None, access: Access) -> None:
    """R22, R23, R25: read, absent (all allowed) or unavailable (all denied for now), by status."""
    verdict = of_response(status, b"User-agent: *\nDisallow: /x\n", US)
    assert verdict.access is access
    assert verdict.rules.allows("/y") == (access is not Access.UNAVAILABLE)
    assert verdict.rules.allows("/x") == (access is Access.ABSENT)


def test_error_page_is_not_read_as_rules() -> None:
    """R23: the body of a 5xx says nothing, neither HTML nor rules."""
    assert of_response(500, b"<html>oops", US).rules == DENY_ALL
    assert of_response(503, b"User-agent: *\nAllow: /\n", US).rules == DENY_ALL


def test_back_off_grows_and_is_bounded() -> None:
    """Each wait is longer than the one before, and after the bound of tries it is a day."""
    waits = [robots.retry_after_s(tries, 0.5) for tries in range(1, robots.MAX_TRIES + 1)]
    assert waits[0] == 60
    assert waits == sorted(waits)
    assert waits[-1] == robots.retry_after_s(1_000_000, 0.5) == 86_400
    assert robots.retry_after_s(0, 0.0) == 45
    assert robots.retry_after_s(1, 0.0) < 60 < robots.retry_after_s(1, 0.999)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/a/b", "Disallow: /a/"),
        ("/a/pub/x", "Allow: /a/pub"),
        ("/a/pub/x.php", "Disallow: /*/x.php$"),
        ("/tie/", "Allow: /tie/"),
        ("/d/", "Allow: /d/index.html"),
        ("/%6b%c3%b6", "Disallow: /k%C3%B6"),
        ("/other", None),
    ],
)
def test_the_line_that_decides_is_named(path: str, line: str | None) -> None:
    """Who asks why a URL is allowed or denied is shown the line that settles it, if any does."""
    text = (
        "User-agent: *\nDisallow: /a/\nAllow: /a/pub\nDisallow: /*/x.php$\nDisallow: /tie/\nAllow: /tie/\n"
        "Disallow: /d/\nAllow: /d/index.html\nDisallow: /kö\n"
    )
    rules = parse(text.encode(), US)
    assert rules.deciding(path) == line
    assert rules.allows(path) == said_to_allow(rules, path)


def said_to_allow(rules: Rules, path: str) -> bool:
    """The verdict by the line that decides."""
    line = rules.deciding(path)
    return line is None or line.startswith("Allow: ")


TYPICAL_LINES = (
    b"User-agent: *\nUser-agent: us\nUser-agent: b\nDisallow: /\nAllow: /a*b$\nDisallow: /*%\n"
    b"Disallow: /%C3%B6\nCrawl-delay: 1.5\nSitemap: x\n\xef\xbb\xbf\nDisallow: /a\0\n#\nContent-Signal: a=b\n"
).split(b"\n")
LINES = st.lists(
    st.one_of(
        st.sampled_from(TYPICAL_LINES),
        st.binary(max_size=30).map(lambda rest: b"Disallow: /" + rest),
        st.binary(max_size=30).map(lambda rest: b"Allow: *" + rest),
        st.binary(max_size=60),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]), st.text(max_size=30))
def test_any_file_is_read_and_survives_the_store(lines: list[bytes], end: bytes, path: str) -> None:
    """No file and no path raises; a dump loads to equal rules that give equal answers."""
    rules = parse(end.join(lines), US)
    again = Rules.loads(rules.dumps())
    assert again == rules
    assert again.allows("/" + path) == rules.allows("/" + path) == said_to_allow(rules, "/" + path)
    assert rules.crawl_delay_s is None or 0 < rules.crawl_delay_s <= 86_400
    assert not math.isnan(rules.crawl_delay_s or 0.0)


PATTERNS = st.text(alphabet="ab/*$", max_size=8).map(lambda text: "/" + text)


def by_the_book(rule: str, path: str) -> bool:
    """RFC 9309 section 2.2.3 as a table of what can be matched, slow and plain."""
    ends = rule.endswith("$")
    pattern = rule[:-1] if ends else rule + "*"
    reach = {0}
    for char in pattern:
        if char == "*":
            reach = set(range(min(reach), len(path) + 1)) if reach else reach
        else:
            reach = {at + 1 for at in reach if at < len(path) and path[at] == char}
    return len(path) in reach


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), PATTERNS), min_size=1, max_size=6), PATTERNS)
def test_matching_equals_the_book(rules: list[tuple[bool, str]], path: str) -> None:
    """The fast matcher gives the answer of the definition: longest match, Allow wins a tie."""
    path = path.replace("*", "b").replace("$", "a")
    text = "User-agent: *\n" + "".join(
        f"{'Allow' if allow else 'Disallow'}: {rule}\n" for allow, rule in rules
    )
    best = max(((len(rule), allow) for allow, rule in rules if by_the_book(rule, path)), default=(0, True))
    # A dollar within a rule is spelled otherwise in the URL here, so such rules never match.
    assert allowed(text, path) == best[1]
