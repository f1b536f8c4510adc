"""docs/reliability.md says what the tests hold."""

from __future__ import annotations

from tests import reliability


def test_every_case_has_a_test_that_exists() -> None:
    """A test that was renamed or removed would leave its case to nobody."""
    assert reliability.missing_tests() == []


def test_the_table_is_the_one_in_the_document() -> None:
    """After a change: ``python -m tests.reliability``."""
    assert reliability.part(reliability.PAGE.read_text(), reliability.MARK) == reliability.render()
