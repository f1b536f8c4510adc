"""The small inputs that broke other crawlers, and other people's expectations, asked of ``explain``.

The rules have their tests elsewhere; here it is shown that the command says what they do.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.conftest import Score
from tests.rules.test_url import cases
from tests.work.asking import PAGE, allowed, ask, explain

U = "User-agent: us\n"
ANY = "User-agent: *\n"


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("\n\t  http://h.test/x\n", "http://h.test/x"),  # U01
        ("\n   /feeds/a.xml\n  ", "http://h.test/feeds/a.xml"),  # U02
        ("http://h.test/p ", "http://h.test/p"),  # U04
        ("/\\other.test/x", "http://other.test/x"),  # U05
        ("\\dir2\\y", "http://h.test/dir2/y"),
        ("http://h.test/d/Dia%25", "http://h.test/d/Dia%25"),  # U07
        ("http://h.test/a%20b%20%2376#x", "http://h.test/a%20b%20%2376"),  # U08
        ("http://%25u:%25p@h.test/", "http://h.test/"),  # U10
        ("http://BÜCHER.test/", "http://xn--bcher-kva.test/"),  # U13
        ("http://faß.test/", "http://xn--fa-hia.test/"),
        ("http://h.test:8443/a", "http://h.test:8443/a"),  # U16
        ("http://h%2Etest/a", "http://h.test/a"),  # U17
        ("http://h.test/web/../../../../f.jpg", "http://h.test/f.jpg"),  # U20
        ("c.html", "http://h.test/dir/c.html"),  # U22
        ("?p=3", "http://h.test/dir/page.html?p=3"),
        ("http://h.test/?WikiPage", "http://h.test/?WikiPage"),  # U31
        ("http://h.test/?2=A&1=b&2=0", "http://h.test/?2=A&1=b&2=0"),  # U32
        ("/p#a", "http://h.test/p"),  # U34
        ("/v?&amp;p=2", "http://h.test/v?&amp;p=2"),  # U35
    ],
)
def test_what_is_fetched(url: str, canonical: str) -> None:
    """U: an address comes out as browsers have it, is its own canonical form, and is fetched as it is."""
    assert explain(url, base=PAGE)["canonical"] == canonical
    assert explain(canonical)["canonical"] == canonical


@pytest.mark.parametrize(
    ("url", "why"),
    [
        *[(f"http://{host}/", "bad_host") for host in ("a" * 64 + ".test", "a..test", ".test")],  # U11
        ("http://Las%20Vegas/", "bad_url"),
        ("http://[::1/x", "bad_url"),  # R31
        ("data:image/png;base64,AAAA", "scheme"),  # U25
        ("http://h.test" + "/www.other.test/p" * 4, "trap"),  # U37
        ("http://h.test/" + "x" * 2_048, "trap"),
        ("c.html", "bad_url"),
    ],
)
def test_what_is_refused(url: str, why: str) -> None:
    """U11, U25, U37, R31: what can't be fetched is refused by name, with and without a robots.txt."""
    for answer in (explain(url), explain(url, robots=ANY + "Disallow: /\n")):
        assert answer["refused"] == answer["why_not"] == why
        assert not answer["allowed"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://h.test./a", "http://h.test/a"),  # U14
        ("http://h.test/p%2d1/?q=f", "http://h.test/p-1/?q=f"),  # U19
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),  # U13
    ],
)
def test_what_is_the_same(one: str, other: str) -> None:
    """U13, U14, U19: spellings that lead to one page have one key."""
    keys = [each["dedup_key"] for each in ask({"url": one}, {"url": other})]
    assert keys == [other, other]


def test_a_slash_in_a_query_is_no_folder() -> None:
    """U23, U40: only the path of the base is a place."""
    assert (
        explain("api/x", base="http://h.test/app/p?next=/foo/bar")["canonical"] == "http://h.test/app/api/x"
    )
    assert explain("d", base="http://h.test/b/c")["canonical"] == "http://h.test/b/d"


@pytest.mark.parametrize(
    ("robots", "free", "denied"),
    [
        ("\ufeff" + ANY + "Disallow: /\n", [], ["/"]),  # R01
        *[((ANY + "Disallow: /a\n").replace("\n", end), ["/"], ["/a"]) for end in ("\r\n", "\r")],  # R02
        (ANY + "Disallow: http://x.test/", ["/"], []),  # R04
        (ANY + "Disallow: /?", ["/", "/a"], ["/?a=1"]),  # R05
        (ANY + "Disallow: /*?", ["/", "/a"], ["/?a=1"]),
        ("User-agent: other\nUser-agent: us\nDisallow: /", [], ["/"]),  # R07
        (U + "Disallow: /s\n\n" + ANY + "Disallow: /p", ["/p"], ["/s"]),  # R08
        (ANY + "Disallow: /p\n\n" + U + "Disallow: /s", ["/p"], ["/s"]),
        ("User-agent: a\nCrawl-delay: 2\nUser-agent: us\nDisallow: /x", ["/"], ["/x"]),  # R10
        (U + "Disallow: /\nAllow: /pub/", ["/pub/x"], ["/", "/pub"]),  # R11
        (U + "Disallow: /a\n\n" + U + "Disallow: /b\nAllow: /b", ["/b"], ["/a"]),
        (ANY + "Disallow: /f-%2A.html", ["/f-x.html"], ["/f-*.html", "/f-%2a.html"]),  # R13
        (ANY + "Disallow: /foo-%24", ["/foo-", "/foo"], ["/foo-$", "/foo-%24x"]),
        *[(f"{ANY}Disallow: {rule}", ["/k"], ["/könyvek/", "/k%c3%b6nyvek/"])  # R14
          for rule in ("/könyvek/", "/k%C3%B6nyvek/")],
        ("Crawl-delay: 1\n\n" + ANY + "Disallow: /a", ["/b"], ["/a"]),  # R16
        ("<html>…User-agent:*<br>Disallow: /<br>", ["/"], []),  # R26
        (U + "Disallow: /\n" + ANY + "Allow: /", [], ["/"]),  # R32
        ("İUser-agent: *\nDisallow: /x", ["/x"], []),  # R34
        ("\u212aUser-agent: *\nDisallow: /x", ["/x"], []),
        (ANY + "Disallow: /a\n" + "#" * 10_000_000 + "\nDisallow: /b", ["/b"], ["/a"]),  # R29
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)  # fmt: skip
def test_what_robots_txt_says(robots: str, free: list[str], denied: list[str]) -> None:
    """R: whatever the file looks like, it is read as the standard says."""
    assert allowed(robots, *free) == [True] * len(free)
    assert allowed(robots, *denied) == [False] * len(denied)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("abc", None), ("-1", None), ("1.5", 1.5), ("1,5", None), ("nan", None), ("inf", None), ("1e9", 86_400),
     ("", None), ("0", None), ("86400", 86_400)],
)  # fmt: skip
def test_what_delay_a_site_wishes(value: str, seconds: float | None) -> None:
    """R17, R19, R20: never negative, never NaN, at most a day."""
    assert explain("http://h.test/", robots=f"{ANY}Crawl-delay: {value}\n")["crawl_delay"] == seconds


def test_thousands_of_groups_end_soon() -> None:
    """R28: 20,000 groups for one agent take well under a second."""
    start = time.process_time()
    assert allowed("User-agent: b\nDisallow: /b\n" * 20_000, "/b", agent="b") == [False]
    assert time.process_time() - start < 1.0


# --- outside expectations -----------------------------------------------------------------------


def test_google_rows(shared_data: Path, score: Score) -> None:
    """Asked about the URL of each row as it is written, the command answers what Google published."""
    rows = json.loads((shared_data / "robots_spec_rows.json").read_text(encoding="utf-8"))
    answers = ask(
        *({"url": url, "robots": text, "agent": agent} for _file, agent, text, url, _verdict in rows)
    )
    wrong = [
        row for row, got in zip(rows, answers, strict=True) if got["allowed"] is not (row[4] == "ALLOWED")
    ]
    score("explain: robots.txt rows (Google)", len(rows) - len(wrong), len(rows))
    assert not wrong, wrong[:3]


def test_standard_urls(shared_data: Path, score: Score) -> None:
    """The parsed href of all 891 cases; and what is fetched is that without fragment and userinfo."""
    everything = cases(shared_data / "url_urltestdata.json")
    answers = ask(*({"url": case["input"], "base": case.get("base")} for case in everything))
    wrong = []
    for case, got in zip(everything, answers, strict=True):
        if got["href"] != case.get("href") or not _fits(case.get("href"), got):
            wrong.append((case, got))
    score("explain: URLs, parsed href", len(everything) - len(wrong), len(everything))
    assert not wrong, wrong[:3]


def _fits(href: str | None, got: dict[str, object]) -> bool:
    """Does what would be fetched follow from the parsed href?"""
    if "refused" in got:
        web = href is not None and href.startswith(("http:", "https:"))
        return got["refused"] in (("bad_host", "trap") if web else ("bad_url", "scheme"))
    scheme, _, rest = str(href).partition("#")[0].partition("://")
    authority, slash, path = rest.partition("/")
    return got["canonical"] == f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def test_host_names(shared_data: Path, score: Score) -> None:
    """Names that the DNS can hold come out as in browsers, others are refused as no host or no URL."""
    everything = [
        case
        for name in ("url_toascii.json", "url_IdnaTestV2.json")
        for case in cases(shared_data / name)
        if case["input"]
    ]
    texts = ["".join(f"%{ord(c):02X}" if c in ":/?#\\" else c for c in case["input"]) for case in everything]
    answers = ask(*({"url": f"https://{text}/x"} for text in texts))
    wrong = []
    for case, got in zip(everything, answers, strict=True):
        expected = None if case["output"] is None else f"https://{case['output']}/x"
        if got["href"] != expected or (got.get("canonical", expected) != expected):
            wrong.append((case, got))
        if expected is None and got["refused"] != "bad_url":
            wrong.append((case, got))
    score("explain: host names", len(everything) - len(wrong), len(everything))
    assert not wrong, wrong[:3]
