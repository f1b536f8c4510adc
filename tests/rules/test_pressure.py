"""The table of what makes a stage wait, and the spool's bound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from node.rules.advice import Window, advise
from node.rules.pressure import TABLE, Reason, Row, Waits, spool_bound

NODE = Path(__file__).resolve().parents[2] / "node"


def test_every_reason_has_a_row() -> None:
    """Nothing waits for a reason of which the table does not say whose it is and what ends it."""
    assert TABLE.keys() == set(Reason)
    assert all(row.words and row.ends and 0 < row.share <= 1 for row in TABLE.values())


def test_the_lease_script_knows_no_other_reasons() -> None:
    """What the lease script answers is in the table, as something that all fetchers wait for."""
    script = (NODE / "store" / "lua" / "lease.lua").read_text(encoding="utf-8")
    answered = set(re.findall(r"reason = [^\n]*?'(\w+)'", script))
    assert answered == {reason for reason, row in TABLE.items() if row.waits is Waits.FETCHERS}


@pytest.mark.parametrize(("reason", "row"), TABLE.items())
def test_advice_goes_by_the_table(reason: Reason, row: Row) -> None:
    """Who waits for a reason longer than its row allows has that row's stage to thank for it."""
    window = Window(
        pages=10,
        fetchers=1,
        parsers=1,
        fetchers_up_ms=100_000,
        fetchers_waited_ms={reason: 100_000} if row.waits is not Waits.PARSER else {},
        parsers_up_ms=100_000,
        parsers_idle_ms=100_000 if reason is Reason.NO_PAGES else 0,
        parsers_store_ms=100_000 if reason is Reason.STORE else 0,
    )
    assert advise(window).stage is row.by


def test_the_spool_is_as_long_as_the_delay_we_tolerate() -> None:
    """What six parsers do in ten seconds; the floor until that is known."""
    assert spool_bound(33.5, 6, 10.0, 500) == 2_010
    assert spool_bound(0.0, 6, 10.0, 500) == 500
