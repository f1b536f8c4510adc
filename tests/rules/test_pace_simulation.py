"""The law of pace, against a thousand sites."""

from __future__ import annotations

import random

import pytest

from node.rules.pace import Limits
from tests.rules.pace_simulation import LATE_MS, MAX_DELAY_MS, Site, chosen, plain, simulate, sites, total


@pytest.mark.timeout(240)
@pytest.mark.parametrize("delayed", [False, True])
def test_overload_is_rare_whatever_a_site_stands(delayed: bool) -> None:
    """A thousand sites of random tolerance: under 5 % of requests are too many, under 2 % after ten minutes;
    and the sites are used, not just spared."""
    rng = random.Random(11)
    every = sites(rng, 1_000, delayed=delayed)
    sums = simulate(chosen, every, rng, 2 * LATE_MS if delayed else LATE_MS * 5 // 4)
    assert total(sums).share < 0.02
    assert total(sums).late_share < 0.01
    for tolerance, each in sums.items():
        # what a site stands is found out by four or five failures, of however few requests
        few = tolerance >= 128 if delayed else tolerance <= 2
        assert each.share < (0.25 if few else 0.05), (tolerance, each)
        assert each.late_share < 0.03, (tolerance, each)


@pytest.mark.parametrize("tolerance", [1, 2, 3, 5, 8, 13, 21, 31])
def test_the_width_settles_just_under_what_a_site_stands(tolerance: int) -> None:
    """At or one below it, and more gets through than with AIMD alone."""
    good = {}
    for name, law in (("plain", plain), ("chosen", chosen)):
        site = Site(0, tolerance, 1_000, good_at_ms=[])
        pace = site.run(law, random.Random(3), 30 * 60_000)
        assert site.good_at_ms is not None
        good[name] = len(site.good_at_ms)
        if law is chosen:
            assert tolerance - 1 <= pace.visits_at_once(Limits(0, MAX_DELAY_MS)) <= tolerance + 1
            assert site.late_overloads / site.late_requests < 0.02
    assert good["chosen"] > 0.98 * good["plain"]


@pytest.mark.parametrize("base_ms", [0, 500, 1_000])
@pytest.mark.parametrize("lasts_s", [5, 20])
def test_after_trouble_the_rate_is_back_within_a_minute(base_ms: int, lasts_s: int) -> None:
    """A site that fails for a while, and then is as it was before."""
    end = 120_000 + lasts_s * 1_000
    tolerance = 10 if base_ms == 0 else base_ms // 2
    site = Site(base_ms, tolerance, 200, trouble_ms=(120_000, end), good_at_ms=[])
    site.run(chosen, random.Random(5), end + 180_000)
    assert site.good_at_ms is not None
    before = sum(60_000 <= at < 120_000 for at in site.good_at_ms)
    after = sum(end + 60_000 <= at < end + 120_000 for at in site.good_at_ms)
    assert after >= 0.95 * before


def test_a_site_in_trouble_is_left_in_peace() -> None:
    """While it answers nothing but throttles it gets a handful of requests, not a stream."""
    site = Site(0, 40, 200, trouble_ms=(60_000, 660_000))
    site.run(chosen, random.Random(5), 660_000)
    assert 0 < site.overloads < 60
    assert site.requests > 5_000
