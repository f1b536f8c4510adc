"""Gates in front of pages: challenges, captchas and block pages, and ordinary pages that speak of them.

Made up after what the real ones are made of; they link to ``/behind``, which nobody should ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.web.pages import small_page
from tests.web.wire import Exchange

BEHIND = '<a href="/behind">The page itself</a>'


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...] = ()


def _page(status: int, title: str, body: str = "", head: str = "", **headers: str) -> Answer:
    document = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}</head>\n'
        f"<body>{body}</body></html>\n"
    )
    return Answer(status, document, tuple((name.replace("_", "-"), text) for name, text in headers.items()))


def _gate(status: int, title: str, body: str = "", head: str = "", **headers: str) -> Answer:
    return _page(status, title, body + BEHIND, head, **headers)


def _script(src: str) -> str:
    return f'<script src="{src}"></script>'


GATES: dict[str, Answer] = {
    # Cloudflare
    "cloudflare": _gate(403, "Just a moment...", Server="cloudflare", CF_Mitigated="challenge"),
    "cloudflare-title": _gate(503, "Just a moment...", "<h1>example.test</h1>"),
    "cloudflare-deutsch": _gate(
        403, "Nur einen Moment…", "<script>(function(){window._cf_chl_opt = {cType: 'managed'};})();</script>"
    ),
    "cloudflare-200": _gate(
        200, "Just a moment...", _script("/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1")
    ),
    "cloudflare-old": _gate(
        503, "Please wait", '<div class="cf-browser-verification cf-im-under-attack">Checking</div>'
    ),
    "cloudflare-block": _gate(
        403, "Attention Required! | Cloudflare", '<div id="cf-error-details">You have been blocked</div>'
    ),
    # Akamai
    "akamai": Answer(
        403,
        "<HTML><HEAD>\n<TITLE>Access Denied</TITLE>\n</HEAD><BODY>\n<H1>Access Denied</H1>\n \nNo.<P>\n"
        f"Reference&#32;&#35;18&#46;8f2d1002&#46;1764547200&#46;1a2b3c4d\n<P>\n{BEHIND}</BODY>\n</HTML>\n",
        (("Server", "AkamaiGHost"),),
    ),
    "akamai-200": _gate(
        200, "&nbsp;", head='<meta http-equiv="refresh" content="5; URL=\'/?bm-verify=AAQAAAAN_____x\'" />'
    ),
    "akamai-behaviour": _gate(200, "", '<div id="sec-if-cpt-container"></div>'),
    # DataDome, HUMAN
    "datadome": _gate(
        403,
        "example.test",
        "<script data-cfasync=\"false\">var dd={'rt':'c','host':'geo.captcha-delivery.com'}</script>"
        + _script("https://ct.captcha-delivery.com/c.js"),
        X_DataDome="protected",
    ),
    "datadome-json": Answer(403, '{"url":"https://geo.captcha-delivery.com/captcha/?initialCid=AHrl"}'),
    "human": _gate(
        403,
        "Access to this page has been denied",
        '<div id="px-captcha"></div>',
        f"<style>{'p{}' * 900}</style>",
    ),
    "human-200": _gate(200, "Robot or human?", '<div id="px-captcha" style="margin:1px"></div>'),
    # Imperva
    "imperva": _gate(
        200,
        "",
        '<iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=7">Request unsuccessful. '
        "Incapsula incident ID: 434000870345502677-1</iframe>",
    ),
    "imperva-script": Answer(
        200,
        '<html><head><META NAME="robots" CONTENT="noindex,nofollow">'
        f"{_script('/_Incapsula_Resource?SWJIYLWA=5')}</head><body>{BEHIND}</body></html>",
    ),
    "imperva-text": Answer(403, "Request unsuccessful. Incapsula incident ID: 434000870345502677-1"),
    "imperva-interruption": _gate(
        200,
        "Pardon Our Interruption...",
        "<script>window.onProtectionInitialized = function(p) {}</script>",
    ),
    # Amazon
    "aws": Answer(202, "", (("x-amzn-waf-action", "challenge"),)),
    "aws-captcha": _gate(405, "Human Verification", x_amzn_waf_action="captcha"),
    "aws-script": _gate(202, "", '<script>window.gokuProps = {"key": "AQIDAH"};</script>'),
    "cloudfront": _gate(
        403, "ERROR: The request could not be satisfied", "<h1>403 ERROR</h1>\nRequest blocked."
    ),
    "amazon": _gate(503, "Amazon", '<form method="get" action="/errors/validateCaptcha"></form>'),
    # the others
    "sucuri": Answer(
        200,
        "<html><title>You are being redirected...</title><script>var s={},u,sucuri_cloudproxy_js='',S='cz1w';"
        f"</script>{BEHIND}</html>",
    ),
    "sucuri-block": _gate(403, "Sucuri WebSite Firewall - Access Denied"),
    "f5": Answer(
        200,
        "<html><head><title>Request Rejected</title></head><body>The requested URL was rejected. "
        f"Please consult with your administrator.<br>Your support ID is: 40452<br>{BEHIND}</body></html>",
    ),
    "kasada": _gate(429, "", "<script>window.KPSDK={};KPSDK.now=Date.now;</script>"),
    "fastly": _gate(200, "Client Challenge", _script("/_fs-ch-1T1wm/script.js")),
    "ddos-guard": _gate(403, "DDoS-Guard", _script("/.well-known/ddos-guard/js-challenge/index.js")),
    "vercel": _gate(429, "Vercel Security Checkpoint", x_vercel_mitigated="challenge"),
    "anubis": _gate(
        200,
        "Making sure you&#39;re not a bot!",
        '<a href="https://anubis.example/">Protected</a>',
        '<script id="anubis_challenge" type="application/json">{"rules":{"difficulty":4}}</script>',
    ),
    "siteground": _gate(
        202, "", head='<meta http-equiv="refresh" content="0;/.well-known/sgcaptcha/?r=%2F&y=ipr:"></meta>'
    ),
    "imunify": _gate(200, "One moment, please...", "<script>xhr.open('GET', '/?wsidchk=1');</script>"),
    "alibaba": Answer(200, f"<html><script>\nvar arg1='{'2F1C9D0A' * 5}';var _0x4818=[];</script></html>"),
    # any captcha, and nothing else
    "captcha": _gate(403, "One more step", '<div class="g-recaptcha" data-sitekey="6L"></div>'),
    "captcha-200": _page(200, "Are you a robot?", '<div class="h-captcha" data-sitekey="1"></div>'),
    "redirect": Answer(302, "", (("Location", "https://geo.captcha-delivery.com/captcha/?initialCid=A"),)),
}
"""Path -> a gate."""

_PARAGRAPH = f"<p>It takes a while, and nothing can be done about it.{' It is what it is.' * 12}</p>\n"

ORDINARY: dict[str, Answer] = {
    "article": _page(
        200,
        "Just a moment... how challenges work",
        "<h1>Just a moment...</h1><p>You see <code>cf-mitigated: challenge</code>, a captcha, Access Denied, "
        "Request unsuccessful. Incapsula incident ID: 12-34, sucuri_cloudproxy_js=, Sucuri, px-captcha.</p>"
        "<pre>&lt;script&gt;window._cf_chl_opt = {cType: 'managed'};&lt;/script&gt;\nwindow.gokuProps = {};"
        '\nwindow.KPSDK={};\n&lt;div id="px-captcha"&gt;\nhttps://geo.captcha-delivery.com/captcha/</pre>',
    ),
    "title": _page(200, "Just a moment...", _PARAGRAPH * 3),
    "sensors": _page(
        200,
        "A shop behind bot managers",
        _PARAGRAPH + '<div class="g-recaptcha" data-sitekey="6L"></div>',
        "<script>window.__CF$cv$params={r:'8b'};window._pxAppId=\"PX123\"</script>"
        + _script("/cdn-cgi/challenge-platform/scripts/jsd/main.js")
        + _script("/_Incapsula_Resource?SWJIYLWA=719d&ns=1")
        + _script("https://abc.token.awswaf.com/abc/challenge.js")
        + _script("https://js.datadome.co/tags.js"),
        Server="cloudflare",
        X_DataDome="protected",
        X_Iinfo="7-76038078-0",
    ),
    "contact": _page(
        200, "Contact us", '<form><input name="mail"><div class="h-captcha" data-sitekey="1"></div></form>'
    ),
    "login": _page(
        403,
        "Members only",
        '<form><input type="password" name="p"><div class="g-recaptcha"></div></form>',
    ),
    "forbidden": _page(403, "403 Forbidden", "<h1>403 Forbidden</h1>"),
    "denied": _page(403, "Access Denied", "<p>This folder is for the staff. Reference: see FAQ #18.</p>"),
    "words": _page(403, "Forbidden", "<p>Just a moment... please solve the captcha.</p>"),
    "index": _page(
        200,
        "Client Challenge",
        _script("/_fs-ch-1/x.js") + "".join(f'<li><a href="#{n}">{n}</a>\n' for n in range(1, 31)),
    ),
    "missing": _page(404, "Access Denied", "Reference #18.8f2d1002.1764547200.1a2b"),
    "counted": _page(200, "A page", _PARAGRAPH, x_amzn_waf_action="count"),
}
"""Path -> a page, or an ordinary refusal, that has words or scripts of gates in it."""


async def gates(x: Exchange) -> None:
    """``/NAME`` is the gate of that name; the home page links to two of them."""
    await _serve(x, GATES, "Gates", ("/cloudflare", "/imperva"))


async def ordinary(x: Exchange) -> None:
    """``/NAME`` is the ordinary answer of that name; the home page links to them all."""
    await _serve(x, ORDINARY, "Ordinary", tuple(f"/{name}" for name in ORDINARY))


async def _serve(x: Exchange, answers: dict[str, Answer], title: str, links: tuple[str, ...]) -> None:
    name = x.request.steps[0]
    answer = answers.get(name)
    if answer is None:
        await x.answer(404 if name else 200, small_page(title, () if name else links))
        return
    for header in answer.headers:
        x.header(*header)
    await x.answer_compressed(answer.status, answer.body.encode())
