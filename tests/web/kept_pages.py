"""Pages somebody kept, as a web for a real nginx: for measurements on real pages.

They are dealt out to made-up sites; a site's home page, which is made, links to all of its own. Links of the
pages themselves lead nowhere here.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.web.pages import compress

SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
_GZIPPED_IN_TEN = 9


@dataclass(frozen=True, slots=True)
class KeptPages:
    """``sites``: host -> its folder; ``pages``: how many there are, home pages included."""

    folder: Path
    sites: dict[str, Path]
    pages: int
    urls: list[str]

    @property
    def seeds(self) -> Path:
        """A seed file with every domain."""
        return self.folder / "seeds.txt"


def deal_out(pages: Path, folder: Path, domains: int, pages_per_domain: int) -> KeptPages:
    """Make such a web in ``folder`` (which is emptied) of the pages in ``pages``, at most so many a domain.

    Pages that are the same, byte for byte, are taken once. Nine in ten sites have theirs compressed. Raises
    ``FileNotFoundError`` where there are too few for two domains.
    """
    found = list(_different(pages, domains * (pages_per_domain - 1)))
    domains = min(domains, len(found) // 2)
    if domains < 2:
        raise FileNotFoundError(f"{pages} holds {len(found)} pages ({', '.join(sorted(SUFFIXES))}): too few")
    shutil.rmtree(folder, ignore_errors=True)
    sites: dict[str, Path] = {}
    urls = []
    for index in range(domains):
        host = f"kept-{index:04d}.test"
        root = sites[host] = folder / host
        root.mkdir(parents=True)
        mine = found[index::domains]
        links = "".join(f'<li><a href="/{number}.html">{number}</a>' for number in range(len(mine)))
        home = f"<!doctype html><title>{host}</title><ul>{links}</ul>"
        bodies = [("index.html", home.encode())]
        bodies += [(f"{number}.html", path.read_bytes()) for number, path in enumerate(mine)]
        (root / "robots.txt").write_text("User-agent: *\nAllow: /\n")
        for name, body in bodies:
            if index % 10 < _GZIPPED_IN_TEN:
                (root / f"{name}.gz").write_bytes(compress(body))
            else:
                (root / name).write_bytes(body)
            urls.append(f"https://{host}/{'' if name == 'index.html' else name}")
    (folder / "seeds.txt").write_text("".join(f"{host}\n" for host in sites))
    return KeptPages(folder, sites, len(urls), urls)


def _different(pages: Path, most: int) -> Iterator[Path]:
    known: set[bytes] = set()
    for path in sorted(pages.rglob("*")):
        if len(known) >= most:
            return
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        digest = hashlib.blake2b(path.read_bytes(), digest_size=16).digest()
        if digest not in known:
            known.add(digest)
            yield path
