"""The pages that are rendered say what the code does."""

from __future__ import annotations

from tests import hostile, reference


def test_the_reference_is_what_the_code_says() -> None:
    """A setting, an outcome or an exit code can't change without its page: ``python -m tests.reference``."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.render()


def test_the_hostile_page_is_what_the_code_says() -> None:
    """What hostile sites come to can't change without its page: ``python -m tests.hostile``."""
    assert hostile.PAGE.read_text(encoding="utf-8") == hostile.render()
