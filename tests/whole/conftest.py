"""What the tests of whole nodes share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tls_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates that all webs here share."""
    return tmp_path_factory.mktemp("tls")
