"""What the tests here need of a machine; without it they say so and are skipped, or fail in CI."""

from __future__ import annotations

import os

import pytest

from tests.conftest import missing
from tests.fleet import base
from tests.fleet.shell import missing_programs


def need_root_and(*programs: str) -> None:
    """Skip where we are not root; where a program is missing, skip on a laptop and fail in CI."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    absent = missing_programs(*programs)
    if absent:
        missing(f"{', '.join(absent)} not installed (scripts/test installs it)")


def need_boxes() -> None:
    """Skip where we are not root; where boxes can't be had, skip on a laptop and fail in CI."""
    need_root_and(*base.PROGRAMS)
    try:
        base.base()
    except base.Unavailable as error:
        missing(str(error))
