"""Fingerprints of pages: near for a small change, far for another page; and what follows for a domain."""

from __future__ import annotations

import random

import pytest

from node.rules.similar import (
    KINDS,
    LEAST,
    MIN_SHINGLES,
    MOST,
    NEAR_BITS,
    Likeness,
    distance,
    sampler,
    simhash,
)

MENU = b"".join(b"<li><a href=/%d>menu item number %d</a>" % (n, n) for n in range(60))


def words(seed: int, count: int) -> list[bytes]:
    dice = random.Random(seed)
    return [b"w%d" % dice.randrange(5_000) for _ in range(count)]


def page(text: list[bytes], menu: bytes = MENU) -> bytes:
    lines = [b" ".join(text[start : start + 12]) for start in range(0, len(text), 12)]
    return b"<html><ul>" + menu + b"</ul><p>" + b"<p>".join(lines) + b"</html>"


def print_of(body: bytes) -> bytes:
    found = simhash(body)
    assert found is not None
    assert len(found) == 8
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_small_change_is_near_and_another_page_is_far(seed: int) -> None:
    """A clock, a counter and a session in the links change little; another article under one menu much."""
    text = words(seed, 600)
    one = print_of(page(text))
    changed = [*text[:300], b"12:31:07", *text[301:], b"visitor", b"4711"]
    assert distance(one, print_of(page(changed).replace(b"href=/", b"href=/;jsessionid=1/"))) <= NEAR_BITS
    assert distance(one, print_of(page(words(seed + 1_000, 600)))) > 2 * NEAR_BITS


def test_only_text_counts() -> None:
    """Attributes, scripts and styles are no text, however long; case is no difference."""
    text = words(1, 300)
    loud = page(text).replace(b"<p>w", b'<p class="x" title=1>W')
    scripted = loud + b"<script>" + b" ".join(words(2, 500)) + b"</script><STYLE>" + b"a b c " * 50
    assert simhash(scripted) == simhash(page(text))


def test_too_little_text_is_not_compared() -> None:
    """Pages of a sentence are all alike, and say nothing."""
    assert simhash(b"<p>" + b" ".join(b"%d" % n for n in range(MIN_SHINGLES + 1))) is None
    assert simhash(b"<p>" + b" ".join(b"%d" % n for n in range(MIN_SHINGLES + 2))) is not None
    assert simhash(b"") is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [b"<", b"<a>x", b"<p>>", b" ", b"<script", b"<scripu>", b"a ", b"<a"])
def test_no_page_takes_long(piece: bytes) -> None:
    """Time grows with the length alone: a page of 5 MB of anything is done in well under the timeout."""
    simhash(piece * (5_000_000 // len(piece)))


def test_a_domain_of_copies_is_lowered_and_rises_again() -> None:
    """Nothing follows from a few pages; then by half, three quarters, nine tenths; a domain can change."""
    known = Likeness()
    lowered = []
    for n in range(40):
        known = known.with_page(bytes([0, 0, 0, 0, 0, 0, 0, n % 4]))
        lowered.append(known.lowered)
    assert lowered[: LEAST - 1] == [0] * (LEAST - 1)
    assert lowered[LEAST] == 2  # 8 of 9
    assert lowered[-1] == 3
    assert len(known.kinds) == 1
    assert known.words == "39 of 40 compared are nearly the same as another: priority lowered by 3"
    assert Likeness().words == ""
    dice = random.Random(1)
    for _ in range(3 * MOST):
        known = known.with_page(dice.randbytes(8))
    assert known.lowered == 0
    assert known.compared <= MOST
    assert len(known.kinds) == KINDS


def test_kinds_met_again_are_kept() -> None:
    """Of more kinds than are kept the one not met for longest goes."""
    dice = random.Random(2)
    kinds = [dice.randbytes(8) for _ in range(KINDS + 1)]
    known = Likeness()
    for each in kinds[:KINDS]:
        known = known.with_page(each)
    known = known.with_page(kinds[0]).with_page(kinds[KINDS])
    assert known.kinds == (*kinds[2:KINDS], kinds[0], kinds[KINDS])


def test_the_sample_is_a_share_and_always_the_same() -> None:
    """Who is compared depends on the URL alone, and as many are as the setting says."""
    urls = [f"https://h.test/{n}" for n in range(20_000)]
    picked = list(filter(sampler(0.05), urls))
    assert 850 < len(picked) < 1_150
    assert list(filter(sampler(0.05), urls)) == picked
    assert not list(filter(sampler(0.0), urls))
    assert list(filter(sampler(1.0), urls)) == urls
