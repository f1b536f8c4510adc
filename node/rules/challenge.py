"""Answers that are no page but a gate: challenges, captchas, and the block pages of bot managers.

They come with all statuses, 200 among them, and say the same thing whatever the URL: whoever asks so
often, or at all, shall prove to be a human. We don't; we ask less often.

Recognised by what such pages are made of and others are not: a header set for the purpose, or an element,
a script or a title in the first kilobytes, where it matters together with the status. Words alone prove
nothing: many an article is about challenges, and most sites behind a bot manager carry its scripts in
ordinary pages (``cdn-cgi/…/jsd``, ``_Incapsula_Resource``, ``_pxAppId``, ``awswaf.com``, ``KPSDK``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from node.rules.headers import Headers

LOOK_BYTES = 8_192
"""Of the decoded body, what is looked at ..."""
LOOK_CODED_BYTES = 3_000
"""... and of a compressed one what is decoded for it."""
MAX_PAGE_BYTES = 20_000
"""A 2xx body longer than this (as received) is no challenge: those seen are much smaller ..."""
MAX_CODED_BYTES = 8_000
"""... and compressed no longer than this."""
MAX_LINKS = 5
"""A 2xx page with more links in its first kilobytes is a page; challenges link to their maker, if at all."""

REFUSALS = frozenset(range(400, 600)) - {404, 410}
"""Statuses that block pages come with."""

_BY_HEADER: dict[bytes, tuple[str, re.Pattern[bytes]]] = {
    # documented by their makers for clients that want to know
    b"cf-mitigated": ("Cloudflare challenge", re.compile(rb"challenge")),
    b"x-amzn-waf-action": ("AWS WAF challenge", re.compile(rb"challenge|captcha")),
    b"x-vercel-mitigated": ("Vercel challenge", re.compile(rb"challenge|deny")),
    b"sg-captcha": ("SiteGround captcha", re.compile(rb"challenge")),
}
_NAME_LENGTHS = frozenset(map(len, _BY_HEADER))

_BY_LOCATION: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("DataDome captcha", re.compile(rb"https://geo\.captcha-delivery\.com/")),
    ("Radware captcha", re.compile(rb"https?://validate\.perfdrive\.com/")),
    ("Google captcha", re.compile(rb"https?://(?:www|ipv[46])\.google\.[a-z.]{2,6}/sorry/")),
    ("Baidu captcha", re.compile(rb"https?://wappass\.baidu\.com/static/captcha")),
    ("Queue-it waiting room", re.compile(rb"https://[a-z0-9-]+\.queue-it\.net/")),
    ("SiteGround captcha", re.compile(rb"(?:https?://[^/]+)?/\.well-known/(?:sg)?captcha/")),
    ("Alibaba captcha", re.compile(rb"(?:https?:)?//[^/]+/+_____tmd_____/punish")),
    ("Amazon captcha", re.compile(rb"(?:https?://[^/]+)?/errors/validatecaptcha")),
)


@dataclass(frozen=True, slots=True)
class Marker:
    """What one kind of gate looks like, in a body in lower case.

    ``stem`` is looked for first, ``pattern`` only where it was found. ``statuses`` None = any.
    ``in_script``: the match must stand inside a script element, not in text that shows one.
    """

    name: str
    stem: bytes
    pattern: re.Pattern[bytes]
    statuses: frozenset[int] | None = None
    in_script: bool = False

    def fits(self, status: int, start: bytes) -> bool:
        """Does a body that begins with ``start``, which has the stem, belong to this gate?"""
        if self.statuses is not None and status not in self.statuses:
            return False
        if not self.in_script:
            return self.pattern.search(start) is not None
        return any(_in_script(start, match.start()) for match in self.pattern.finditer(start))


def _in_script(start: bytes, at: int) -> bool:
    return start.rfind(b"<script", 0, at) > start.rfind(b"</script", 0, at)


def _m(
    name: str,
    stem: bytes,
    pattern: bytes,
    statuses: frozenset[int] | None = None,
    *,
    in_script: bool = False,
) -> Marker:
    return Marker(name, stem, re.compile(pattern), statuses, in_script)


# No pattern may run on from one tag into the next: a hostile body would make that quadratic.
MARKERS: tuple[Marker, ...] = (
    # Cloudflare: its challenges set this object, whatever language their title is in
    _m("Cloudflare challenge", b"_cf_chl_", rb"\b_cf_chl_opt\s*=", in_script=True),
    _m("Cloudflare challenge", b"_cf_chl_", rb"<form [^<>]*action=\"[^\"<>]*__cf_chl_"),
    _m("Cloudflare challenge", b"cf-browser-verification",
       rb"<[a-z]+ [^<>]*(?:id|class)=[\"'][^\"'<>]*\bcf-browser-verification"),
    _m("Cloudflare block", b"cf-error-details", rb"<div [^<>]*id=[\"']cf-error-details",
       frozenset({401, 403})),
    # Akamai: two kinds of interstitial, both with 200
    _m("Akamai challenge", b"bm-verify=", rb"<meta [^<>]*refresh[^<>]*[?&;]bm-verify="),
    _m("Akamai challenge", b"sec-if-cpt-container",
       rb"<(?:div|iframe|section) [^<>]*id=[\"']sec-if-cpt-container"),
    # DataDome: a captcha or an interstitial, both from this host
    _m("DataDome challenge", b"captcha", rb"<(?:iframe|script) [^<>]*"
       rb"src=[\"']https://[a-z0-9.]*\bcaptcha-delivery\.com/"),
    _m("DataDome challenge", b"captcha",
       rb"\A\s*\{\s*\"url\"\s*:\s*\"https://geo\.captcha-delivery\.com/", REFUSALS),
    # HUMAN, once PerimeterX: "press and hold"
    _m("HUMAN challenge", b"captcha",
       rb"<(?:div|meta|section) [^<>]*(?:id|class|content)=[\"']px-captcha\b"),
    # Imperva, once Incapsula: its resource script is in ordinary pages too, alone in none
    _m("Imperva challenge", b"incapsula", rb"<iframe [^<>]*src=[\"']/_incapsula_resource\?"),
    _m("Imperva challenge", b"incapsula",
       rb"\A\s*<html>\s*<head>\s*<meta name=\"robots\" content=\"noindex, ?nofollow\">\s*"
       rb"<script src=\"/_incapsula_resource\?"),
    _m("Imperva block", b"incapsula", rb"request unsuccessful\. incapsula incident id: ?\d", REFUSALS),
    # AWS WAF
    _m("AWS WAF challenge", b"gokuprops", rb"\bwindow\.gokuprops\s*=\s*\{", in_script=True),
    # Sucuri, which GoDaddy sells under its own name
    _m("Sucuri challenge", b"sucuri_cloudproxy_js", rb"\bsucuri_cloudproxy_js\s*=", in_script=True),
    _m("Sucuri block", b"website firewall", rb"<(?:title|h1|h2)[^<>]*>\s*(?:access denied - )?"
       rb"(?:sucuri|godaddy) website firewall\b", REFUSALS),
    # the others, by name
    _m("F5 challenge", b"bobcmn", rb"\bwindow\[\"bobcmn\"\]\s*=", in_script=True),
    _m("Kasada challenge", b"kpsdk", rb"\bwindow\.kpsdk\s*=\s*\{\s*\}", in_script=True),
    _m("Anubis challenge", b"anubis_challenge", rb"<script [^<>]*id=[\"']anubis_challenge"),
    _m("Anubis challenge", b".within.website", rb"<(?:link|script|img) [^<>]*(?:href|src)="
       rb"[\"'][^\"'<>]*/\.within\.website/x/"),
    _m("SiteGround captcha", b"captcha",
       rb"<meta [^<>]*refresh[^<>]*content=[\"']\d+;\s*(?:url=)?/\.well-known/(?:sg)?captcha/\?"),
    _m("Imunify360 challenge", b"wsidchk", rb"\bwsidchk\b", in_script=True),
    _m("Imunify360 captcha", b"captcha", rb"<div [^<>]*id=[\"']im360_captcha"),
    _m("Amazon captcha", b"captcha",
       rb"<form [^<>]*action=[\"'](?:https?://[^/\"'<>]+)?/errors(?:_page)?/validatecaptcha"),
    _m("Google captcha", b"captcha", rb"<form [^<>]*id=[\"']captcha-form[\"'] action=[\"']index"),
    _m("Alibaba challenge", b"arg1=", rb"\A\s*<html>\s*<script>\s*var arg1=[\"'][0-9a-f]{20,}"),
    _m("Alibaba captcha", b"_____tmd_____", rb"/_____tmd_____/punish", in_script=True),
    _m("Reblaze challenge", b"rbzns", rb"\bwindow\.rbzns\s*=\s*\{", in_script=True),
    _m("Qrator challenge", b"__qrator", rb"<script [^<>]*src=[\"']/__qrator/", REFUSALS),
    _m("Wordfence block", b"generated by wordfence", rb"generated by wordfence at ", REFUSALS),
)  # fmt: skip
"""Gates known by an element or a script. The first that fits counts."""

_JUST_A_MOMENT = b"just a moment"
TITLES: tuple[Marker, ...] = (
    _m("Cloudflare challenge", _JUST_A_MOMENT,
       rb"/cdn-cgi/challenge-platform/(?!(?:h/[a-z]/)?scripts/jsd/)|//challenges\.cloudflare\.com/"),
    _m("Cloudflare challenge", _JUST_A_MOMENT, rb"", frozenset({403, 429, 503})),
    _m("Cloudflare block", b"attention required! | cloudflare", rb"", REFUSALS),
    # the edge's own 403 has a reference number
    _m("Akamai block", b"access denied",
       rb"reference(?:&#32;|\s){0,3}(?:&#35;|#)\s?[0-9a-f]{1,4}(?:&#46;|\.)[0-9a-f]+(?:&#46;|\.)", REFUSALS),
    _m("HUMAN challenge", b"access to this page has been denied", rb"\b_px[a-z]+|px-captcha", REFUSALS),
    _m("Imperva challenge", b"pardon our interruption",
       rb"\bonprotectioninitialized\b|distilidentificationblock|id=[\"']captcha-box|/_incapsula_resource"),
    _m("AWS WAF challenge", b"human verification", rb"\bawswaf", REFUSALS),
    _m("AWS WAF block", b"error: the request could not be satisfied", rb">\s*request blocked\.",
       frozenset({403})),
    # F5's block page has status 200
    _m("F5 block", b"request rejected",
       rb"<body>\s*the requested url was rejected\. please consult with your administrator"),
    _m("Fastly challenge", b"client challenge", rb"/_fs-ch-"),
    _m("DDoS-Guard challenge", b"ddos-guard", rb"/\.well-known/ddos-guard/"),
    _m("Vercel challenge", b"vercel security checkpoint", rb"", REFUSALS),
    _m("Radware captcha", b"radware captcha page", rb""),
    _m("Radware captcha", b"radware bot manager captcha", rb""),
    _m("BitNinja challenge", b"waiting for the redirectiron", rb""),
)  # fmt: skip
"""Gates known by their title (``stem``; without dots at its end) and something else of theirs."""


def _grouped(markers: tuple[Marker, ...]) -> tuple[tuple[bytes, tuple[Marker, ...]], ...]:
    stems = dict.fromkeys(marker.stem for marker in markers)
    return tuple((stem, tuple(m for m in markers if m.stem == stem)) for stem in stems)


_BY_STEM = _grouped(MARKERS)
_BY_TITLE = dict(_grouped(TITLES))

_WIDGET = re.compile(
    rb"<(?:div|form|button|iframe|script|input|img) [^<>]*(?:"
    rb"class=[\"'][^\"'<>]*\b(?:g-recaptcha|h-captcha|cf-turnstile|frc-captcha|smart-captcha)\b"
    rb"|src=[\"']https://(?:www\.(?:google\.com|recaptcha\.net)/recaptcha/|(?:js\.)?hcaptcha\.com/"
    rb"|challenges\.cloudflare\.com/turnstile/|client-api\.arkoselabs\.com/|static\.geetest\.com/)"
    rb"|(?:id|name)=[\"'](?:captcha|captcha[-_](?:form|image|code|input))[\"'])"
)
_GATE_TITLE = re.compile(
    rb"\bcaptcha\b|\bare you (?:a )?(?:human|robot)|\brobot check|\bnot a robot|\bhuman verification"
    rb"|\bverify (?:that )?you(?:'re| are) (?:a )?human|\bsecurity check|\battention required"
    rb"|\bbot (?:check|verification|protection)|\bchecking your browser"
)


def by_headers(status: int, headers: Headers) -> str | None:
    """The gate that the headers alone give away, or None. Cheap: for every response."""
    for name, value in headers:
        if len(name) in _NAME_LENGTHS:
            found = _BY_HEADER.get(name.lower())
            if found is not None and found[1].match(value.strip().lower()):
                return found[0]
    if 300 <= status < 400:
        return _by_location(headers)
    return None


def _by_location(headers: Headers) -> str | None:
    for name, value in headers:
        if len(name) == 8 and name.lower() == b"location":
            target = value.lower()
            return next((gate for gate, pattern in _BY_LOCATION if pattern.match(target)), None)
    return None


def worth_a_look(status: int, received_bytes: int, *, coded: bool) -> bool:
    """Whether the body should be looked at: all refusals, and what is small enough to be only a gate.

    ``received_bytes`` long it came, in a content coding or not.
    """
    if status < 400:
        return 0 < received_bytes <= (MAX_CODED_BYTES if coded else MAX_PAGE_BYTES)
    return received_bytes > 0 and status in REFUSALS


def by_body(status: int, start: bytes) -> str | None:
    """The gate that ``start``, the first ``LOOK_BYTES`` of the decoded body, belongs to; or None."""
    if status < 400 and start.count(b"<a ") > MAX_LINKS:
        return None
    start = start.lower()
    title = _title(start)
    for marker in _BY_TITLE.get(title, ()):
        if marker.fits(status, start):
            return marker.name
    for stem, markers in _BY_STEM:
        if stem in start:
            for marker in markers:
                if marker.fits(status, start):
                    return marker.name
    return "captcha" if _is_captcha(status, start, title) else None


def _title(start: bytes) -> bytes:
    """What the title says, without dots at its end; empty where there is none, or a long one."""
    tag = start.find(b"<title")
    begin = start.find(b">", tag) + 1
    end = start.find(b"</title", begin, begin + 200)
    return start[begin:end].strip().rstrip(b".") if tag >= 0 and begin and end >= 0 else b""


def _is_captcha(status: int, start: bytes, title: bytes) -> bool:
    """A captcha and nothing else? With 200 a contact form can look so, too, but for its title."""
    links = start.count(b"<a ")
    if links > (0 if status < 400 else MAX_LINKS) or b'type="password"' in start:
        return False
    if status < 400 and not _GATE_TITLE.search(title):
        return False
    return _WIDGET.search(start) is not None
