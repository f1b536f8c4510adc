"""A web of pages somebody kept."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.web.kept_pages import deal_out


def _keep(folder: Path, many: int) -> Path:
    (folder / "deep").mkdir(parents=True)
    for number in range(many):
        (folder / "deep" / f"{number:03d}.HTML").write_text(f"<title>{number}</title>")
    (folder / "same.html").write_text("<title>0</title>")
    (folder / "picture.png").write_bytes(b"none")
    return folder


def test_each_page_is_dealt_out_once_and_linked_from_its_home(tmp_path: Path) -> None:
    """Whatever folder it is in; the same page once, other files not at all."""
    web = deal_out(_keep(tmp_path / "kept", 45), tmp_path / "web", 20, 4)
    assert (len(web.sites), web.pages, len(set(web.urls))) == (20, 65, 65)
    found = []
    for host, root in web.sites.items():
        bodies = {
            path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes())
            if path.suffix == ".gz"
            else path.read_bytes()
            for path in root.iterdir()
        }
        home = bodies.pop("index.html").decode()
        assert b"Allow: /" in bodies.pop("robots.txt")
        for name, body in bodies.items():
            assert f'href="/{name}"' in home
            assert f"https://{host}/{name}" in web.urls
            found.append(body.decode())
    assert sorted(found) == sorted(f"<title>{number}</title>" for number in range(45))
    compressed = [root for root in web.sites.values() if (root / "index.html.gz").exists()]
    assert len(compressed) == 18
    assert web.seeds.read_text().split() == list(web.sites)


def test_no_more_than_wanted_and_not_too_few(tmp_path: Path) -> None:
    """A plan's size bounds it; a handful of pages is no web."""
    kept = _keep(tmp_path / "kept", 45)
    assert deal_out(kept, tmp_path / "web", 5, 4).pages == 20
    with pytest.raises(FileNotFoundError, match="too few"):
        deal_out(_keep(tmp_path / "few", 1), tmp_path / "web", 5, 4)
