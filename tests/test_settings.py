"""Settings: strict, in one sentence, and the same after a round trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from node import settings
from node.errors import ExitCode, SettingsError
from node.rules.gateway import MAX_WAIT_S

LEAST = {"paths": {"data": "d"}}
API = {"mode": "api", "url": "http://gw.test/?url={url}"}


def test_a_written_tree_reads_back_the_same(tmp_path: Path) -> None:
    """``milliarde crawl`` hands its settings to its children in a file; nothing may change on the way."""
    tree = settings.build(
        {
            "paths": {"data": str(tmp_path / "d"), "redis_socket": str(tmp_path / "s")},
            "crawl": {"name": 'a "quoted" näme\\', "seen_error_rate": 1e-6, "pages": 5, "horizon_s": 86400.0},
            "dns": {"connect_to": [":443:127.0.0.1:8443", "h.test:80:[::1]:8080"]},
            "tls": {"verify": False},
            "priority": {"rules": [{"pattern": '/"*\\$', "level": 1}, {"pattern": "/b", "shift": -2}]},
        }
    )
    path = tmp_path / "node.toml"
    path.write_text(settings.dump(tree), encoding="utf-8")
    assert settings.load(path) == tree


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, "paths"),
        (LEAST | {"crawl": {"deley_s": 1}}, "deley_s"),
        (LEAST | {"craul": {}}, "craul"),
        (LEAST | {"crawl": {"delay_s": "70"}}, "crawl.delay_s"),
        (LEAST | {"crawl": {"delay_s": -1}}, "crawl.delay_s"),
        (LEAST | {"crawl": {"delay_s": float("nan")}}, "crawl.delay_s"),
        (LEAST | {"crawl": {"nodes": 4, "me": 4}}, "crawl.me"),
        (LEAST | {"crawl": {"scope": "list"}}, "domain_list"),
        (LEAST | {"crawl": {"scope": "all"}}, "scope"),
        (LEAST | {"crawl": {"seen_error_rate": 0.5}}, "seen_error_rate"),
        (LEAST | {"identity": {"token": "Bot 2.0"}}, "identity.token"),
        (LEAST | {"identity": {"contact": "a\r\nX: y"}}, "identity.contact"),
        (LEAST | {"parser": {"in_hand": 0}}, "parser.in_hand"),
        (LEAST | {"priority": {"rules": [{"pattern": "/a", "levle": 1}]}}, "levle"),
        (LEAST | {"priority": {"rules": [{"level": 1}]}}, "pattern"),
        (LEAST | {"priority": {"rules": [{"pattern": "a", "level": 1}]}}, "priority.rules: rule 1"),
        (LEAST | {"archive": {"disk_reserve_bytes": 5, "disk_resume_bytes": 5}}, "disk_resume_bytes"),
        (LEAST | {"redis": {"shed_from": 0.5, "shed_to": 0.5}}, "redis.shed_to"),
        (LEAST | {"redis": {"maxmemory_mb": -1}}, "redis.maxmemory_mb"),
        (LEAST | {"redis": {"slow_s": 0.0}}, "redis.slow_s"),
        (API | {"url": "ftp://gw.test/{url}"}, "gateway.url"),
        (API | {"url": "http://gw.test/"}, "lacks {url}"),
        (API | {"url": "http://me:pw@gw.test/{url}"}, "credentials_file"),
        (API | {"url": "http://gw.test/?key={key}&url={url}"}, "credentials_file"),
        (API | {"credentials_file": "key"}, "{key}"),
        (API | {"headers": ["X-Key {key}"]}, "gateway.headers"),
        (API | {"headers": ["X-Key: a\r\nX: b"]}, "gateway.headers"),
        (API | {"ceiling_per_s": 0.0}, "gateway.ceiling_per_s"),
        (API | {"reset_format": "fortnight"}, "gateway.reset_format"),
        (API | {"error_header": "X Ö"}, "gateway.error_header"),
        ({"mode": "proxy", "proxy": "https://gw.test:3128"}, "http://host:port"),
        ({"mode": "proxy", "proxy": "http://gw.test:3128/path"}, "http://host:port"),
        ({"mode": "proxy", "proxy": "http://me:pw@gw.test:3128"}, "credentials_file"),
        ({"mode": "proxy"}, "gateway.proxy"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(raw: object, words: str) -> None:
    """A typo must not quietly crawl with a default."""
    if isinstance(raw, dict) and "mode" in raw:
        raw = LEAST | {"gateway": raw}
    with pytest.raises(SettingsError) as caught:
        settings.build(raw)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code is ExitCode.BAD_SETTINGS


def test_a_lease_shorter_than_a_request_is_refused() -> None:
    """A lease that ends in mid-request would give the URL to somebody else while we are at the site; what a
    whole visit needs beyond that comes by extension."""
    with pytest.raises(SettingsError, match="lease_s"):
        settings.build(LEAST | {"fetcher": {"lease_s": 45}})
    tree = settings.build(LEAST)
    assert tree.request_s < tree.lease_s < tree.longest_visit_s < tree.longest_lease_s
    long = settings.build(LEAST | {"fetcher": {"lease_s": 5_000}})
    assert long.longest_lease_s == long.lease_s == 5_000


def test_the_hop_gap_is_never_longer_than_the_delay() -> None:
    """With no delay (one's own site) a visit need not wait between its requests either."""
    assert settings.build(LEAST | {"crawl": {"delay_s": 0}}).hop_gap_s == 0
    assert settings.build(LEAST | {"crawl": {"delay_s": 70}}).hop_gap_s == 1
    strict = {"delay_s": 70, "strict_politeness": True}
    assert settings.build(LEAST | {"crawl": strict}).hop_gap_s == 70


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    """The operator is told which file and what is wrong with it."""
    with pytest.raises(SettingsError, match="there is no settings file"):
        settings.load(tmp_path / "none.toml")
    broken = tmp_path / "node.toml"
    broken.write_text("[crawl\n")
    with pytest.raises(SettingsError, match="not TOML"):
        settings.load(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="can't be read"):
        settings.load(broken)


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """A crawl's folder can be moved, or named from anywhere."""
    path = tmp_path / "node.toml"
    gateway = '[gateway]\nmode = "api"\nurl = "http://gw.test/{key}/{url}"\ncredentials_file = "key"\n'
    path.write_text('[paths]\ndata = "crawl"\n' + gateway)
    tree = settings.load(path)
    assert tree.data == tmp_path / "crawl"
    assert tree.gateway.credentials_file == str(tmp_path / "key")
    assert tree.paths.redis_socket == str(tmp_path / "redis.sock")


def test_through_a_gateway_nothing_is_tried_again_and_requests_may_wait() -> None:
    """Retry layers are never stacked, and a lease outlasts the wait for a turn before every request."""
    direct, through = settings.build(LEAST), settings.build(LEAST | {"gateway": API})
    assert (direct.retries, through.retries) == (True, False)
    assert settings.build(LEAST | {"gateway": API | {"retry": True}}).retries
    assert through.request_s == direct.request_s + MAX_WAIT_S
    assert through.lease_s - direct.lease_s == MAX_WAIT_S
    assert through.longest_lease_s - direct.longest_lease_s == 12 * MAX_WAIT_S
