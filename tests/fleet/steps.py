"""Tests that are the steps of one story: where one fails, the rest is skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


class Steps:
    """What a story remembers of its steps. ``failed``: the one that did."""

    failed: str = ""


def in_order(steps: Steps, request: pytest.FixtureRequest) -> Iterator[None]:
    """For an autouse fixture: a step makes sense only after those before it."""
    if steps.failed:
        pytest.skip(f"{steps.failed} failed")
    failures = request.session.testsfailed
    yield
    if request.session.testsfailed > failures:
        steps.failed = request.node.name
