"""One miniature web for all tests here; its certificates are made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.running import MiniWeb


@pytest.fixture(scope="session")
def tls_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of certificates that all webs here share."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    """A small web with small pages."""
    folder = tmp_path_factory.mktemp("web")
    with MiniWeb(folder, domains=12, pages_per_domain=6, mean_bytes=4_000, tls_dir=tls_dir) as web:
        yield web
    assert (folder / "server.err").read_text() == ""
