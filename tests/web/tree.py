"""The ordinary web as a folder of files, for a real nginx to serve where speed is measured."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.web.graph import Kind, Place, page_path, robots_txt
from tests.web.oracle import Expected, reachable
from tests.web.pages import compress, render
from tests.web.shape import Shape, domain_name, traits

BENCH_MEAN_BYTES = 146_000
_MARKER = "tree.json"
_SOURCES = ("shape.py", "graph.py", "pages.py", "tree.py")


@dataclass(frozen=True, slots=True)
class Tree:
    """A generated tree: ``folder`` holds one folder per host, and ``seeds.txt`` with the bare domains."""

    folder: Path
    shape: Shape

    @property
    def sites(self) -> dict[str, Path]:
        """Host -> its folder, as ``Nginx`` takes it (with ``precompressed=True``)."""
        names = (domain_name(index) for index in range(self.shape.domains))
        return {name: self.folder / name for name in names}

    @property
    def seeds(self) -> Path:
        """A seed file with every domain."""
        return self.folder / "seeds.txt"

    @property
    def pages(self) -> int:
        """How many pages there are; all can be reached from the seeds."""
        return self.shape.domains * self.shape.pages_per_domain

    def expected(self) -> Expected:
        """What a crawl of all seeds finds: ``pages`` pages, and nothing else."""
        return reachable(self.shape, self.sites)


def _fingerprint(shape: Shape) -> str:
    """Changes whenever the pages would: with the shape, or with the code that makes them."""
    here = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for name in _SOURCES:
        digest.update((here / name).read_bytes())
    digest.update(json.dumps(asdict(shape)).encode())
    return digest.hexdigest()


def generate_tree(
    folder: Path,
    domains: int,
    pages_per_domain: int,
    seed: int = 1,
    *,
    mean_bytes: int = BENCH_MEAN_BYTES,
) -> Tree:
    """Write the pages of a plain web (see ``Shape.plain``) as files, unless ``folder`` holds them already.

    Nine in ten domains have their pages as ``.gz`` alone, the others plain, so that both kinds of
    answer are met. Raises ``FileExistsError`` where ``folder`` holds anything that isn't such a tree.
    """
    shape = Shape(seed, domains, pages_per_domain, mean_bytes, plain=True)
    fingerprint = _fingerprint(shape)
    marker = folder / _MARKER
    if folder.exists() and any(folder.iterdir()):
        if not marker.exists():
            raise FileExistsError(f"{folder} is not empty and holds no generated tree: name another folder")
        if json.loads(marker.read_text())["fingerprint"] == fingerprint:
            return Tree(folder, shape)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for index in range(domains):
        _write_domain(fresh, shape, index)
    (fresh / "seeds.txt").write_text("".join(f"{domain_name(index)}\n" for index in range(domains)))
    (fresh / _MARKER).write_text(json.dumps({"fingerprint": fingerprint, "shape": asdict(shape)}))
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)
    return Tree(folder, shape)


def _write_domain(folder: Path, shape: Shape, index: int) -> None:
    here = traits(shape, index)
    root = folder / here.name
    root.mkdir(parents=True)
    (root / "robots.txt").write_text(robots_txt(shape, here.name))
    for number in range(here.pages):
        body = render(shape, Place(Kind.PAGE, index, number))
        path = page_path(shape, here, number).lstrip("/")
        file = root / (f"{path}index.html" if path.endswith("/") or not path else path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if here.gzip:
            file.with_name(file.name + ".gz").write_bytes(compress(body))
        else:
            file.write_bytes(body)
