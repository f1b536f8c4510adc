"""A soak's own arithmetic, and the soaks in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import __main__ as command
from tests.soak import leaks
from tests.soak.growth import Growth, Samples
from tests.soak.hostile import soak
from tests.soak.hostile_claims import Plan, healthy_rate
from tests.soak.hostile_seeds import MISBEHAVING, seed_lines
from tests.soak.verdict import Claim, Verdict, into_document
from tests.web.log import Entry


def test_growth_is_that_of_a_line_after_the_warm_up() -> None:
    """What is taken while caches fill counts for nothing; a leak shows, and noise about a level does not."""
    memory = Samples()
    for at in range(20):
        noise = 1.0 if at % 2 else -1.0
        memory.note(at, {"leaks": 100.0 + 3 * at, "steady": 50.0 + noise if at > 5 else 10.0 * at})
    leaks, steady = memory.growth(10)
    assert (leaks.name, steady.name) == ("leaks", "steady")
    assert leaks.grown == pytest.approx(27)
    assert abs(steady.grown) < 1
    assert not leaks.flat(0.1, 10)
    assert steady.flat(0.1, 1)
    assert Growth("small", 20, 4).flat(0.1, 5)


def test_a_process_that_was_hardly_seen_says_nothing() -> None:
    """A line through two points would say anything."""
    memory = Samples({"late": [(1.0, 5.0), (2.0, 500.0)]})
    assert memory.growth(0) == []


def test_the_rate_is_that_of_healthy_domains_between_ramp_and_end() -> None:
    """Neither the start, nor what comes after the end, nor anybody else counts."""
    log = [
        Entry(t_ms, 1, "https", 443, host=host)
        for t_ms in range(0, 30_000, 500)
        for host in ("site-00000.test", "drip.test")
    ]
    assert healthy_rate(log, 10, 20_000) == pytest.approx(2)
    assert healthy_rate([], 10, 20_000) == 0


def test_each_misbehaving_domain_is_asked_again_and_again() -> None:
    """A domain that is done after a minute would leave the healthy half alone for the rest."""
    lines = list(seed_lines(30))
    assert len(set(lines)) == len(lines) == 30 * len(MISBEHAVING)


def test_a_claim_that_does_not_hold_is_seen(tmp_path: Path) -> None:
    """In the verdict, and in the document, where nothing but what is between the marks changes."""
    good, bad = Claim("it goes", "3", True), Claim("it stops", "4", False)
    assert Verdict((good,), ()).holds
    verdict = Verdict((good, bad), (("seconds", "7"),))
    assert not verdict.holds
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- soak x -->\nwhat was\n<!-- /soak x -->\nafter\n")
    into_document(page, "x", verdict.text())
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| it stops | 4 | **NO** |" in text
    assert "what was" not in text
    with pytest.raises(ValueError, match="no place"):
        into_document(page, "y", "")


def test_every_soak_has_its_place() -> None:
    """The script's help and the document know each by its name."""
    script = (command.REPO / "scripts" / "soak").read_text()
    document = command.DOCUMENT.read_text()
    for name, module in command.SOAKS.items():
        assert module.HELP
        assert f"\n#   {name} " in script
        assert f"<!-- soak {name} -->" in document


@pytest.mark.whole
@pytest.mark.timeout(240)
def test_half_of_the_web_misbehaves(tmp_path: Path) -> None:
    """The hostile soak in small, but for the rate and the memory, which take longer to be told."""
    plan = Plan(requests=600, alone_s=4, delay_s=0.5, warm_s=2)
    claims = {claim.what: claim for claim in soak(plan, tmp_path, print).claims}
    for slow in ("memory is flat", "healthy domains keep 95% of their rate"):
        del claims[slow]
    assert len(claims) == 3
    assert all(claim.holds for claim in claims.values()), claims


@pytest.mark.whole
@pytest.mark.timeout(240)
def test_what_grows_is_looked_for(tmp_path: Path) -> None:
    """The leaks soak in small: both crawls come to their end, and every claim is judged. (Whether they hold
    shows in a long run only, but for the first and the last.)"""
    found = leaks.soak(400, 300, tmp_path, print)
    assert found.claims[0].holds, found.claims[0]
    assert "keys" in found.claims[-1].measured
    assert len(found.claims) == 2 + 2 * 4
