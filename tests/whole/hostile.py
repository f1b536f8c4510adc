"""What each misbehaving domain of the miniature web comes to, in our own words: by outcome.

What a domain does is told in tests/web/behaviours/table.py. ``test_misbehaving`` crawls them all and holds
the crawl to these tables; ``tests.hostile`` renders docs/hostile.md from them.
"""

from __future__ import annotations

NO_ROBOTS = {"robots_unavailable"}
OUTCOMES: dict[str, tuple[set[str], set[str]]] = {
    # domain: outcomes that must be met, and others that may
    "other.test": ({"page"}, set()),
    "moody.test": ({"page"}, set()),
    "manylinks.test": ({"page"}, set()),
    "httponly.test": ({"page"}, set()),
    "slow.test": ({"page"}, {"timeout"}),
    "drip.test": ({"page"}, {"timeout"}),
    "endless.test": ({"page"}, set()),
    "endless-audio.test": ({"page", "unwanted_type"}, set()),
    "giant.test": ({"page"}, set()),
    "bomb.test": ({"page"}, set()),
    "notfound.test": ({"not_found"}, set()),
    "ratelimited.test": ({"page"}, {"rate_limited"}),
    "unavailable.test": ({"unavailable"}, set()),
    "flaky.test": ({"page", "unavailable"}, set()),
    "servererror.test": ({"server_error"}, set()),
    "status.test": ({"page", "no_content", "client_error", "not_found", "gone", "forbidden"},
                    {"unauthorized", "payment_required", "server_error"}),
    "challenge.test": ({"page", "challenged"}, set()),
    "nochallenge.test": ({"page", "forbidden", "not_found"}, set()),
    "dead.test": (NO_ROBOTS, set()),
    "blackhole.test": (NO_ROBOTS, set()),
    "tls-drip.test": (NO_ROBOTS, set()),
    "badcert.test": (NO_ROBOTS, set()),
    "selfsigned.test": (NO_ROBOTS, set()),
    "expired.test": (NO_ROBOTS, set()),
    "reset.test": ({"page"}, {"disconnected"}),
    "truncated.test": ({"page"}, set()),
    "nochunkend.test": ({"page"}, set()),
    "malformed.test": ({"page", "malformed_http", "disconnected"}, set()),
    "bigheaders.test": ({"page", "malformed_http"}, set()),
    "notgzip.test": ({"page"}, set()),
    "br.test": ({"page"}, {"unsupported_encoding"}),
    "redirects.test": ({"page", "redirected", "redirected_away", "redirect_loop", "bad_redirect"},
                       {"redirect_to_seen", "robots_denied"}),
    "lures.test": ({"page", "redirected_away"}, set()),
    "robots-503.test": (NO_ROBOTS, set()),
    "robots-429.test": (NO_ROBOTS, set()),
    "robots-timeout.test": (NO_ROBOTS, set()),
    "robots-reset.test": (NO_ROBOTS, set()),
    "robots-flaky.test": (NO_ROBOTS, {"page"}),
    "robots-late.test": ({"robots_denied"}, set()),
    "robots-403.test": ({"page"}, set()),
    "robots-redirect-5.test": ({"page", "robots_denied"}, set()),
    "robots-redirect-6.test": (NO_ROBOTS, set()),
    "robots-away.test": ({"robots_denied"}, set()),
    "robots-html.test": ({"page"}, set()),
    "robots-challenge.test": ({"page"}, set()),
    "robots-deny.test": ({"robots_denied"}, set()),
    "robots-delay.test": ({"page"}, set()),
    "robots-huge.test": ({"page", "robots_denied"}, set()),
    "trap-calendar.test": ({"page"}, set()),
    "trap-path.test": ({"page"}, set()),
    "trap-subdomains.test": ({"page"}, set()),
    "trap-session.test": ({"page"}, set()),
    "trap-escape.test": ({"page", "duplicate"}, set()),
    "wrongtype.test": ({"page", "unwanted_type"}, set()),
    "sjis.test": ({"page"}, set()),
    "euckr.test": ({"page"}, set()),
    "windows1251.test": ({"page"}, set()),
    "gbk.test": ({"page"}, set()),
    "nofollow.test": ({"page"}, set()),
    "meta-robots.test": ({"page"}, set()),
    "base.test": ({"page"}, set()),
    "sitemaps.test": ({"page"}, set()),
}  # fmt: skip

CAUSES: dict[str, str] = {
    # domain: why its robots.txt can't be had, so that no page of it is asked for
    "dead.test": "refused",
    "blackhole.test": "timeout",
    "tls-drip.test": "timeout",
    "badcert.test": "tls_failed",
    "selfsigned.test": "tls_failed",
    "expired.test": "tls_failed",
    "robots-503.test": "unavailable",
    "robots-429.test": "rate_limited",
    "robots-timeout.test": "timeout",
    "robots-reset.test": "disconnected",
    "robots-flaky.test": "unavailable",
    "robots-redirect-6.test": "redirected",
}

TRUNCATED = {
    "https://endless.test/": "length",
    "https://giant.test/": "length",
    "https://drip.test/": "time",
    "https://truncated.test/": "disconnect",
    "https://nochunkend.test/": "disconnect",
    "https://reset.test/": "disconnect",
}
"""URLs whose bodies are kept though they are not whole: WARC's word for why."""
