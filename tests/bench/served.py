"""The pages: a made-up web of real sizes behind a real nginx, and what the server saw of a run.

Each answer ends its connection, so every page takes a new one, whoever asks. Half of the domains have an
RSA chain, half an EC leaf under a P-384 intermediate. The server's access log is the witness: how many
requests came, over how many connections, how many of their TLS sessions were resumed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.plan import SEED, Plan
from tests.bench.processes import children, cpu_seconds
from tests.web.certs import Authority
from tests.web.graph import page_url
from tests.web.kept_pages import KeptPages, deal_out
from tests.web.log import Entry
from tests.web.nginx import Nginx
from tests.web.shape import Shape
from tests.web.tree import Tree, generate_tree

_LOG_LAG_S = 2.0
"""A request is logged when its connection is closed, which may be after the client has its page."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the server saw of one run. ``cpu_s`` is nginx's own, which counts for nobody."""

    cpu_s: float
    pages: int
    robots: int
    connections: int
    hosts: int
    resumed: int
    """Requests whose TLS session was resumed."""
    page_bytes: int
    """Sent for pages, headers included."""
    other: int
    """Requests answered with anything but 200; there should be none."""


class Web:
    """The pages of a plan, made once and kept in ``folder``; ``serve`` starts a fresh nginx for each run.

    ``kept``: a folder of real pages, to be taken instead of made-up ones.
    """

    def __init__(self, folder: Path, plan: Plan, kept: Path | None = None) -> None:
        self._folder = folder
        self.tree: Tree | KeptPages
        self.max_depth: int | None = None
        """How far links are to be followed: those of real pages lead nowhere."""
        if kept is None:
            name = f"pages-{plan.domains}x{plan.pages_per_domain}"
            self.tree = generate_tree(folder / name, plan.domains, plan.pages_per_domain, SEED)
            self.urls = _urls(self.tree.shape)
        else:
            self.tree = deal_out(kept, folder / "pages-kept", plan.domains, plan.pages_per_domain)
            self.urls = self.tree.urls
            self.max_depth = 1
        self._authority = Authority(folder / "tls", "mixed")
        self.ca = self._authority.root
        self.one_seed = self._write("one-seed.txt", [next(iter(self.tree.sites))])
        self.url_list = self._write("urls.txt", self.urls)
        self.home_list = self._write("homes.txt", [f"https://{name}/" for name in self.tree.sites])

    def _write(self, name: str, lines: list[str]) -> Path:
        path = self._folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def chains(self) -> dict[str, int]:
        """Kind of certificate chain -> domains that have it."""
        leaves = (self._authority.leaf(name) for name in self.tree.sites)
        return dict(Counter(leaf.parent.parent.name for leaf in leaves))

    def kind_of_chain(self, domain: str) -> str:
        """``rsa`` or ``ec``."""
        return self._authority.leaf(domain).parent.parent.name

    @contextmanager
    def serve(self) -> Iterator[Server]:
        """An nginx with an empty log and no TLS session known."""
        folder = self._folder / "nginx"
        (folder / "access.log").unlink(missing_ok=True)
        with Nginx(
            folder,
            self.tree.sites,
            authority=self._authority,
            keepalive=False,
            precompressed=True,
            access_log=True,
        ) as nginx:
            yield Server(nginx)


def _urls(shape: Shape) -> list[str]:
    """Breadth first, so that no domain is asked for all its pages at once."""
    return [
        page_url(shape, index, number)
        for number in range(shape.pages_per_domain)
        for index in range(shape.domains)
    ]


class Server:
    """A running nginx, watched."""

    def __init__(self, nginx: Nginx) -> None:
        self.nginx = nginx
        self._cpu_s = self._cpu()

    def _cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in (self.nginx.pid, *children(self.nginx.pid)))

    def seen(self, requests: int) -> Seen:
        """What it saw from its start until now; waits a moment for the log to tell of ``requests``."""
        cpu_s = self._cpu() - self._cpu_s
        patience = time.monotonic() + _LOG_LAG_S
        while True:
            entries = self.nginx.log_entries()
            if len(entries) >= requests or time.monotonic() > patience:
                return summarise(entries, cpu_s)
            time.sleep(0.05)


def summarise(entries: list[Entry], cpu_s: float) -> Seen:
    """Count an access log."""
    good = [entry for entry in entries if entry.status == 200]
    pages = [entry for entry in good if entry.path != "/robots.txt"]
    return Seen(
        cpu_s=cpu_s,
        pages=len(pages),
        robots=len(good) - len(pages),
        connections=len({entry.conn for entry in entries}),
        hosts=len({entry.host for entry in entries}),
        resumed=sum(1 for entry in entries if entry.resumed),
        page_bytes=sum(entry.bytes for entry in pages),
        other=len(entries) - len(good),
    )
