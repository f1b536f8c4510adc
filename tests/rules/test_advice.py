"""Which stage sets the pace, and how the processes should be split."""

from __future__ import annotations

import pytest

from node.rules.advice import WORDS, Window, advise
from node.rules.pressure import Stage


def window(**changes: object) -> Window:
    """Nine fetchers and six parsers over ten seconds, all busy."""
    made: dict[str, object] = {
        "pages": 1_000,
        "fetchers": 9,
        "parsers": 6,
        "fetchers_up_ms": 90_000,
        "fetchers_waited_ms": {},
        "parsers_up_ms": 60_000,
        "parsers_idle_ms": 0,
        "parsers_store_ms": 0,
    }
    return Window(**(made | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"fetchers_waited_ms": {"spool_full": 45_000}}, Stage.PARSERS),
        ({"parsers_idle_ms": 40_000}, Stage.FETCHERS),
        ({"fetchers_waited_ms": {"no_work": 80_000}, "parsers_idle_ms": 50_000}, Stage.POLITENESS),
        ({"fetchers_waited_ms": {"no_work": 80_000}, "worst_lag_ms": 500.0}, Stage.FETCHERS),
        ({"fetchers_waited_ms": {"paused": 90_000}}, Stage.OPERATOR),
        ({"fetchers_waited_ms": {"disk_low": 20_000}}, Stage.DISK),
        ({"fetchers_waited_ms": {"no_store": 20_000}}, Stage.STORE),
        ({"parsers_store_ms": 40_000}, Stage.STORE),
        ({"fetchers_waited_ms": {"gateway": 40_000}}, Stage.GATEWAY),
        ({"fetchers_waited_ms": {"line_down": 40_000, "no_work": 50_000}}, Stage.LINE),
        ({"fetchers_waited_ms": {"pages_reached": 20_000}}, Stage.LIMIT),
        ({"fetchers_waited_ms": {"store": 60_000}}, Stage.STORE),
        ({"fetchers_waited_ms": {"spool_full": 45_000}, "parsers_up_ms": 0}, Stage.PARSERS),
        ({"fetchers_up_ms": 0}, Stage.STARTING),
    ],
)
def test_each_starved_stage_is_named(changes: dict[str, object], stage: Stage) -> None:
    """Whoever waits is not to blame; whom they wait for is."""
    assert advise(window(**changes)).stage is stage


def test_the_split_follows_what_each_can_do() -> None:
    """Fetchers that wait half their time for the parsers are too many: the same processes, other roles."""
    found = advise(window(fetchers_waited_ms={"spool_full": 45_000}))
    assert (found.fetchers, found.parsers) == (6, 9)
    assert "6 fetchers and 9 parsers" in found.words(window())
    found = advise(window(parsers_idle_ms=45_000))
    assert (found.fetchers, found.parsers) == (13, 2)


def test_advice_never_leaves_a_stage_without_a_process() -> None:
    """At least one of each, and no advice where there is nothing to share out."""
    found = advise(window(parsers_idle_ms=60_000))
    assert found.parsers == 1
    found = advise(window(fetchers=1, parsers=1, parsers_idle_ms=60_000))
    assert (found.fetchers, found.parsers) == (1, 1)
    found = advise(window(parsers_up_ms=0))
    assert (found.fetchers, found.parsers) == (9, 6)


def test_every_stage_has_words() -> None:
    """Status can say any of them."""
    assert set(WORDS) == set(Stage)
