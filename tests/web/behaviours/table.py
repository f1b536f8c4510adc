"""The table of misbehaving domains: name -> what it does -> what a good crawler does.

docs/miniature-web.md is rendered from it (``python -m tests.web.document``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from tests.web.behaviours import (
    broken,
    documents,
    gates,
    healthy,
    pace,
    redirects,
    refusals,
    robots,
    sitemaps,
    traps,
)
from tests.web.wire import Exchange

Handler = Callable[[Exchange], Awaitable[None]]

ALLOW_ALL = "User-agent: *\nDisallow:\n"


class Door(Enum):
    """What is met at a domain's port."""

    OPEN = "open"
    CLOSED = "closed"
    """Connection refused."""
    SILENT = "silent"
    """Accepts TCP and never says a word."""
    DRIP = "drip"
    """Accepts TCP and sends a TLS record of one byte a second."""


class Certificate(Enum):
    """What a domain shows for itself."""

    GOOD = "good"
    OTHER = "other"
    """Valid, for another name."""
    SELF_SIGNED = "self-signed"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One row. All subdomains of ``name`` behave like it."""

    name: str
    handler: Handler
    does: str
    expect: str
    """What a good crawler does about it."""
    seeds: tuple[str, ...] = ("/",)
    """Paths that belong into a seed file; the home page stands there as a bare domain."""
    robots: str | None = ALLOW_ALL
    """The robots.txt; None: the handler answers that request too."""
    https: Door = Door.OPEN
    http: Door = Door.OPEN
    serves_http: bool = False
    """Plain HTTP is answered by the handler; else it redirects to https."""
    certificate: Certificate = Certificate.GOOD


_B = Behaviour
_SLOW = "waits without holding anybody up"
_DEADLINE = "gives up at the total deadline of a request, counts `timeout`, slows this domain only"
_CAP = "stops reading at its cap, keeps what it has marked as truncated, closes the connection"
_BAD_TLS = "counts `tls_failed`, sends no request"
_MALFORMED = "counts `malformed_http` or reads what can be read; never crashes"
_WAITS = (
    "fetches nothing from this origin for now, asks for robots.txt again later, a bounded number of times"
)

_HEALTHY = (
    _B("other.test", healthy.small_site, "A small healthy site: home, /page/1 … /page/40.",
       "stores its pages"),
    _B("moody.test", healthy.moody,
       "A small site until a request for /-/mood/NAME changes that: healthy, busy (pages without end), "
       "limiting (429, Retry-After 1), unavailable (503), slow (2 s), giant (2 MB pages), "
       "silent (no answer).",
       "slows down with it, and comes back"),
    _B("manylinks.test", documents.big, "One page with 5,000 links.",
       "admits as many as its limit, counts the rest"),
    _B("httponly.test", healthy.only, "Port 443 is closed, port 80 serves.",
       "tries https for a bare seed, then http", https=Door.CLOSED, serves_http=True),
)  # fmt: skip

_SLOW_ENDLESS_TOO_LARGE = (
    _B("slow.test", pace.slow, "First byte after 2 s; /wait/SECONDS after so many.", _SLOW,
       ("/", "/wait/0.5")),
    _B("drip.test", pace.drip, "One byte of body a second, for ever; /head: of the head.", _DEADLINE,
       ("/", "/head")),
    _B("endless.test", pace.endless, "An HTML body without end.", _CAP),
    _B("endless-audio.test", pace.endless_audio, "/live.mp3 is audio/mpeg without end.",
       "sees the type and reads no body"),
    _B("giant.test", pace.giant, "A 30 MB page: /early is linked in its first kilobyte, /late at its end.",
       _CAP + "; finds /early, not /late"),
    _B("bomb.test", pace.bomb, "100 KB of gzip that hold 100 MB of zeros; /nested: gzip in gzip.",
       "stops at its cap of decoded bytes; memory stays flat", ("/", "/nested")),
)  # fmt: skip

_SAYING_NO = (
    _B("notfound.test", refusals.not_found, "404 for everything, robots.txt too.",
       "counts `not_found`, never retries", ("/", "/nothing"), robots=None),
    _B("ratelimited.test", refusals.rate_limited,
       "429 with Retry-After: 2 beyond 3 requests a second; /retry-after/TEXT: always, with that text.",
       "waits as asked (within a cap), slows this domain, retries within its budget"),
    _B("unavailable.test", refusals.unavailable, "503; /retry-after/TEXT: with that Retry-After.",
       "slows this domain, retries within its budget, then gives the URL up"),
    _B("flaky.test", refusals.flaky, "Home, /page/1 … /page/5: each 503 at first, 200 the second time.",
       "retries within its budget, which grows with what the domain was asked"),
    _B("servererror.test", refusals.server_error, "500.", "retries within its budget, then gives the URL up"),
    _B("status.test", refusals.status, "/CODE answers with that status (200 to 599).",
       "treats each as its table of outcomes says"),
)  # fmt: skip

_GATES = (
    _B("challenge.test", gates.gates,
       "Challenges, captchas and block pages as bot managers send them, with statuses from 200 to 503, one a "
       "path: " + ", ".join(f"/{name}" for name in gates.GATES) + ". The home page links to two of them.",
       "counts `challenged`, takes no links from it, slows this domain, retries within its budget"),
    _B("nochallenge.test", gates.ordinary,
       "Pages and refusals that speak of such gates, or carry scripts of their makers: "
       + ", ".join(f"/{name}" for name in gates.ORDINARY) + ".",
       "treats each by its status; stores the pages"),
)  # fmt: skip

_NOBODY_THERE = (
    _B("dead.test", healthy.only, "Connection refused.",
       "counts `refused`, parks the domain, longer each time",
       https=Door.CLOSED, http=Door.CLOSED),
    _B("blackhole.test", healthy.only, "Accepts TCP, never says a word.", _DEADLINE,
       https=Door.SILENT, http=Door.SILENT),
    _B("tls-drip.test", healthy.only, "One byte of its first TLS record a second.", _DEADLINE,
       https=Door.DRIP),
)  # fmt: skip

_CERTIFICATES = (
    _B("badcert.test", healthy.only, "A certificate for another name.", _BAD_TLS,
       certificate=Certificate.OTHER),
    _B("selfsigned.test", healthy.only, "A certificate signed by itself.", _BAD_TLS,
       certificate=Certificate.SELF_SIGNED),
    _B("expired.test", healthy.only, "A certificate that ended in 2020.", _BAD_TLS,
       certificate=Certificate.EXPIRED),
)  # fmt: skip

_BROKEN_HTTP = (
    _B("reset.test", broken.reset, "A TCP reset in the middle of the body.",
       "counts `disconnected` or keeps what came, marked as truncated"),
    _B("truncated.test", broken.truncated, "Content-Length 50,000; 5,000 bytes come.",
       "keeps the page, marked `truncated=disconnect`"),
    _B("nochunkend.test", broken.no_chunk_end,
       "Chunked without the last chunk; /bad-size: a size that is no number.",
       "ends at once; keeps the page, marked as truncated"),
    _B("malformed.test", broken.malformed,
       "Heads that break HTTP, one a path: /garbage, /content-length/TEXT, /double-content-length, "
       "/length-and-chunked, /control-in-header, /no-reason (which is allowed), /no-status, /http-2, "
       "/folded, /bare-lf, /nothing. The home page links to them all.", _MALFORMED),
    _B("bigheaders.test", broken.big_headers,
       "20 KB in forty headers; /one: in one; /endless: more and more of them.",
       "stores the first two; stops reading the third at a limit"),
    _B("notgzip.test", broken.not_gzip, "Says gzip, is plain; /cut: gzip that ends in the middle.",
       "keeps the page, first bytes included; of /cut what can be unpacked"),
    _B("br.test", broken.brotli_unasked, "Brotli that nobody asked for; /zstd: zstandard.",
       "decodes it or counts `unsupported_encoding`; never parses it as HTML"),
)  # fmt: skip

_REDIRECTS = (
    _B("redirects.test", redirects.redirects,
       "/chain/N (N hops), /status/CODE, /self, /loop/a, /cookiewall (to itself with a cookie, then 200), "
       "/newcookie (to itself with a new cookie each time), /session (to itself with a session id), "
       "/to/HOST (with cookies for others), /nolocation, "
       "/emptylocation, /twolocations, /seen-target, /relative, /fragment, /moved-away, /denied-target, "
       "/unparsable, /other-scheme. The home page links to them all.",
       "follows at most 5 hops within the domain, each paid for; checks robots.txt for every target; keeps "
       "cookies within the chain and the site; stores no target twice", robots=redirects.ROBOTS),
    _B("lures.test", redirects.lures, "Links and redirects (/to/N) to private addresses in many spellings.",
       "sends nothing there"),
)  # fmt: skip

_ROBOTS_TXT = (
    _B("robots-503.test", robots.robots_503, "robots.txt is 503.", _WAITS, robots=None),
    _B("robots-429.test", robots.robots_429, "robots.txt is 429 with Retry-After: 2.", _WAITS, robots=None),
    _B("robots-timeout.test", robots.robots_timeout, "robots.txt is never answered.", _WAITS, robots=None),
    _B("robots-reset.test", robots.robots_reset, "robots.txt ends in a TCP reset.", _WAITS, robots=None),
    _B("robots-flaky.test", robots.robots_flaky, "robots.txt is 503 twice, then allows.",
       "comes back and stores the site", robots=None),
    _B("robots-late.test", robots.robots_late, "robots.txt takes 2 s and denies everything.",
       "fetches no page meanwhile, and none after", robots=None),
    _B("robots-403.test", robots.robots_403, "robots.txt is 403.", "may fetch everything", robots=None),
    _B("robots-redirect-5.test", robots.robots_redirect_5, "robots.txt after 5 redirects; denies /page/1.",
       "follows them, stays away from /page/1", robots=None),
    _B("robots-redirect-6.test", robots.robots_redirect_6, "robots.txt after 6 redirects.",
       "counts it as unavailable after the 5th: waits and retries", robots=None),
    _B("robots-away.test", robots.robots_away, "robots.txt redirects to that of robots-deny.test.",
       "obeys it for this origin: fetches no page", robots=None),
    _B("robots-html.test", robots.robots_html, "robots.txt is an HTML page (200) with rules in its text.",
       "finds no rule in it: may fetch everything", robots=None),
    _B("robots-challenge.test", robots.robots_challenge, "robots.txt is a challenge with status 200.",
       "may fetch, as the status says, but asks again within the hour", robots=None),
    _B("robots-deny.test", healthy.small_site, "Disallow: /", "fetches nothing but robots.txt",
       robots="User-agent: *\nDisallow: /\n"),
    _B("robots-delay.test", healthy.small_site, "Crawl-delay: 3", "leaves at least 3 s between requests",
       robots="User-agent: *\nCrawl-delay: 3\nDisallow:\n"),
    _B("robots-huge.test", robots.robots_huge,
       "A robots.txt of 1.4 MB that denies /early/ at its start, /late/ at its end.",
       "reads at least 512 KiB: never fetches /early/", robots=None),
)  # fmt: skip

_TRAPS = (
    _B("trap-calendar.test", traps.calendar, "A calendar without first or last month.",
       "stops at the domain's budget"),
    _B("trap-path.test", traps.growing_path, "Every path is a page with a link that makes it longer.",
       "refuses repeated segments as `trap`"),
    _B("trap-subdomains.test", traps.subdomains, "Every subdomain links to ten more.",
       "counts them as one domain: one pace, one budget, bounded origins"),
    _B("trap-session.test", traps.sessions,
       "Three articles; every answer puts a new ;jsessionid= into all links.",
       "knows session ids: four pages (without: stops at the domain's budget)"),
    _B("trap-escape.test", traps.escaping, "A link whose ampersand is escaped twice.",
       "decodes entities once: two URLs, no more"),
)  # fmt: skip

_WHAT_IS_IN_THE_BODY = (
    _B("wrongtype.test", documents.wrong_type,
       "PDF, PNG, JSON, text, CSS; HTML as octet-stream, without a type, as XHTML, with a type in capitals; "
       "a PNG as HTML; nothing at all as HTML.",
       "counts `unwanted_type` where it isn't HTML; takes no links from it"),
    _B("sjis.test", documents.encoded, "Shift_JIS (header), with such letters in its links.",
       "asks for paths in UTF-8, queries in the page's encoding"),
    _B("euckr.test", documents.encoded, "EUC-KR (meta charset), likewise.", "the same"),
    _B("windows1251.test", documents.encoded, "windows-1251 (meta http-equiv), likewise.", "the same"),
    _B("gbk.test", documents.encoded, "GBK, declared nowhere, likewise.", "detects it; then the same"),
    _B("nofollow.test", documents.nofollow,
       "rel=nofollow leads to /hidden/1 and /hidden/2; a plain link to /open.",
       "fetches /open only"),
    _B("meta-robots.test", documents.meta_robots,
       "/nofollow, /none, /header-nofollow link to /after/…; so do /noindex, /header-noindex, /other-bot.",
       "follows only the links of the last three"),
    _B("base.test", documents.base, "Two base elements, and two more in a comment and a script.",
       "uses the first real one: /deep/folder/page.html, /deep/up.html, /root.html"),
    _B("sitemaps.test", sitemaps.sitemaps,
       "Home links to /linked. robots.txt names /index.xml, which names /pages.xml.gz, /list.txt, /cut.xml "
       "(torn in an address), /utf16.xml, /moved.xml (a redirect), /missing.xml and /nested.xml (an index, "
       "too); and it names /denied.xml, which it denies. Nobody names /sitemap.xml.",
       "where sitemaps are asked for: stores what they name but /private/1 (denied), what /denied.xml and "
       "the index in the index name, and the torn address; else /linked alone", robots=sitemaps.ROBOTS),
)  # fmt: skip

GROUPS: dict[str, tuple[Behaviour, ...]] = {
    "Healthy": _HEALTHY,
    "Slow, endless, too large": _SLOW_ENDLESS_TOO_LARGE,
    "Saying no": _SAYING_NO,
    "Gates": _GATES,
    "Nobody there": _NOBODY_THERE,
    "Certificates": _CERTIFICATES,
    "Broken HTTP": _BROKEN_HTTP,
    "Redirects": _REDIRECTS,
    "robots.txt": _ROBOTS_TXT,
    "Traps": _TRAPS,
    "What is in the body": _WHAT_IS_IN_THE_BODY,
}
"""The rows by topic."""

TABLE: tuple[Behaviour, ...] = tuple(row for rows in GROUPS.values() for row in rows)
BY_NAME: dict[str, Behaviour] = {row.name: row for row in TABLE}


def behaviour_of(host: str) -> Behaviour | None:
    """The row that ``host`` behaves by: that of its last two labels."""
    return BY_NAME.get(".".join(host.rsplit(".", 2)[-2:]))


def seed_lines() -> list[str]:
    """The rows' seeds as lines of a seed file: bare domains and URLs."""
    return [row.name if path == "/" else f"https://{row.name}{path}" for row in TABLE for path in row.seeds]
