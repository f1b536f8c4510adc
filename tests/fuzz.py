"""Coverage-guided fuzzing of what reads the web's input: ``python -m tests.fuzz TARGET [SECONDS]``.

No exception may escape, an input may take 5 s and 2 GB at most, and a few laws must hold whatever comes.
Needs atheris (``scripts/fuzz`` installs it); a finding is written to ``crash-*`` in the folder it runs in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

with_coverage = "atheris" in sys.modules or __name__ == "__main__"
if with_coverage:
    import atheris

    with atheris.instrument_imports(include=["node.rules"]):
        from node.rules import charset, html, robots, sitemap_read, url
        from node.rules.refusal import Refusal
else:
    from node.rules import charset, html, robots, sitemap_read, url
    from node.rules.refusal import Refusal

BASE = "https://h.test/dir/page.html?q=1"


def fuzz_url(data: bytes) -> None:
    """Any text as a link: canonical forms are fixed points, and the joiner says what the parser says."""
    text = data.decode("utf-8", "surrogateescape")
    found = url.canonical(text, BASE)
    assert url.Joiner(BASE).join(text) == found
    if not isinstance(found, Refusal):
        assert url.canonical(found) == found
        key = url.dedup_key(found)
        assert url.dedup_key(key) == key
        assert found.startswith(url.origin(found))


def fuzz_robots(data: bytes) -> None:
    """Any bytes as a robots.txt: rules survive the store, and answer for any path."""
    rules = robots.parse(data, "Milliarde")
    assert robots.Rules.loads(rules.dumps()) == rules
    path = "/" + data[:64].decode("latin-1")
    assert rules.allows(path) in (True, False)
    assert rules.crawl_delay_s is None or 0 < rules.crawl_delay_s <= 86_400


def fuzz_html(data: bytes) -> None:
    """Any bytes as a page: bounded links, a base that is a URL."""
    encoding = charset.sniff(data, None).name
    found = html.extract(data, BASE, encoding, "Milliarde", max_links=100)
    assert len(found.links) <= 100
    assert url.parse(found.base) is not None


def fuzz_charset(data: bytes) -> None:
    """Any bytes, any label: an encoding we can decode, and text."""
    label = data[:24].decode("latin-1")
    for content_type in (None, f"text/html; charset={label}"):
        found = charset.sniff(data, content_type)
        assert isinstance(charset.decode(data, found.name), str)


def fuzz_sitemap(data: bytes) -> None:
    """Any bytes as a sitemap: no more sitemaps than were asked for."""
    found = sitemap_read.read(data, BASE, content_type=None, whole=True, max_sitemaps=5)
    assert len(found.sitemaps) <= 5


TARGETS: dict[str, Callable[[bytes], None]] = {
    name.removeprefix("fuzz_"): value for name, value in list(globals().items()) if name.startswith("fuzz_")
}


def main() -> None:
    target, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    limits = [f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=2048", "-max_len=65536"]
    atheris.Setup([sys.argv[0], *limits], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
