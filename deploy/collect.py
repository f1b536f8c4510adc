"""Bringing what nodes have crawled to the operator's machine: by rsync, resumable, every record verified.

``DIR/HOST/`` gets ``warc/``, ``log/``, ``taken/`` and an ``index.cdxj`` of its own; ``collected.json`` there
says which files have been verified, so that a second run reads only what is new. A node where all that was
written has come gets a mark, which ``down`` looks for.

The archive of a node that was begun anew has the names of the one that was lost. What was collected of that
one stays, and the new one comes into ``DIR/HOST-2/``.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy import nodes, places, progress
from deploy.errors import DiskError, ExitCode
from deploy.inventory import Fleet
from deploy.runner import Host, State, play
from deploy.text import human_bytes, natural

RECEIPT = "collected.json"
OPEN = ".open"
"""End of the name of a file that is being written."""
WARC = ".warc.gz"
FREE_AFTER_S = 600
"""A file may go when it was closed this long ago, and every page that old has been parsed."""
_FILES_PER_CALL = 2_000


@dataclass(slots=True)
class Holding:
    """What a node has. ``files``: name -> (bytes, seconds since 1970 when it was written last)."""

    host: str
    born: str
    """When the shard was begun there; it tells one that was lost from what came after it."""
    now_s: int
    oldest_unparsed_s: float
    at_work: bool
    """Whether a fetcher runs there."""
    files: dict[str, tuple[int, float]]
    folder: Path
    """Where they come."""

    @property
    def closed(self) -> dict[str, int]:
        """Names of files that are complete, with their bytes; logs grow on."""
        return {name: size for name, (size, _) in self.files.items() if not name.endswith(OPEN)}

    @property
    def is_over(self) -> bool:
        """Will no file grow any more?"""
        return self.all_closed and not self.at_work

    @property
    def all_closed(self) -> bool:
        return len(self.closed) == len(self.files)

    def may_go(self) -> list[str]:
        """WARC files that nothing on the node will ask for again."""
        if self.oldest_unparsed_s > FREE_AFTER_S / 2:
            return []
        old = self.now_s - FREE_AFTER_S
        return [name for name, (_, at) in self.files.items() if name.endswith(WARC) and at < old]


@dataclass(slots=True)
class _Came:
    """What came of one host. ``wrong``: in words."""

    holding: Holding
    files: int = 0
    bytes: int = 0
    new: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collected:
    """How it went. ``complete``: every node answered, none is at work, and all of their files are here."""

    code: ExitCode
    complete: bool = False


def collect(fleet: Fleet, into: Path, *, final: bool, free: bool) -> Collected:
    """Bring all closed files. ``final``: end the crawl first, so that all are. ``free``: then remove from the
    nodes what WARC files are here, whole, and no longer needed there."""
    places.program("rsync")
    into = into.absolute()
    look = play(
        fleet, "operate/holdings", display=progress.display("look"), variables={"milliarde_final": final}
    )
    nodes.trouble(look)
    code = look.code
    holdings = {host.name: _holding(host, into) for host in look.of(State.OK)}
    if not holdings:
        return Collected(code)
    _make_room(into, holdings.values())
    meter = _Meter(holdings)
    run = play(
        fleet.only(*holdings),
        "operate/collect",
        display=progress.display("collect", meter.words),
        variables={"milliarde_into": {name: str(each.folder) for name, each in holdings.items()}},
    )
    nodes.trouble(run)
    code = code or run.code
    came = [_verified(holdings[host.name]) for host in run.of(State.OK)]
    _show(came, into)
    sound = [each for each in came if not each.wrong]
    if len(sound) < len(came):
        code = ExitCode.CHECK_FAILED
    if code:
        return Collected(code)
    code = _note(fleet, sound, free=free)
    return Collected(code, not code and all(each.holding.is_over for each in sound))


def _holding(host: Host, into: Path) -> Holding:
    def said(task: str) -> str:
        return str(host.results[task].get("stdout") or "")

    files = {}
    for line in said("What is there?").splitlines():
        size, at, name = line.split(" ", 2)
        files[name] = (int(size), float(at))
    told: dict[str, Any] = json.loads(said("How old is the oldest page that no parser has read?"))
    now_s = int(said("What time is it there?"))
    born = said("When was the shard begun?").strip()
    folder = _folder(into, host.name, born)
    at_work = any(name.startswith("fetcher.") for name in told["processes"])
    return Holding(host.name, born, now_s, told["spool"]["oldest_s"], at_work, files, folder)


def _folder(into: Path, host: str, born: str) -> Path:
    """The first folder of the host that is this shard's, or nobody's yet."""
    number = 1
    while True:
        folder = into / (host if number == 1 else f"{host}-{number}")
        if _receipt(folder).get("born", born) == born:
            return folder
        number += 1


def _receipt(folder: Path) -> dict[str, Any]:
    """``born``: which shard it is; ``verified``: name -> bytes of what need not be read again."""
    path = folder / RECEIPT
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DiskError(f"{path} can't be read ({error}): it says whose files those are") from None
    return told


def _make_room(into: Path, holdings: Iterable[Holding]) -> None:
    """Make the folders; see that what is to come fits. Raises ``DiskError``."""
    wanted = 0
    try:
        for each in holdings:
            each.folder.mkdir(parents=True, exist_ok=True)
            _write(each.folder / RECEIPT, _receipt(each.folder) | {"born": each.born})
            wanted += max(0, sum(each.closed.values()) - _bytes_here(each))
        free = shutil.disk_usage(into).free
    except OSError as error:
        raise DiskError(f"{into} can't be made: {error.strerror}") from None
    if wanted > free:
        raise DiskError(f"{human_bytes(wanted)} are to come, and {into} has room for {human_bytes(free)}")


def _bytes_here(holding: Holding) -> int:
    here = 0
    for name in holding.closed:
        path = holding.folder / name
        for each in (path, path.parent / ".partial" / path.name):
            if each.is_file():
                here += each.stat().st_size
    return here


class _Meter:
    """How much has come of each node. There may be thousands of files, so it looks now and then."""

    EVERY_S = 3.0

    def __init__(self, holdings: Mapping[str, Holding]) -> None:
        self._holdings = holdings
        self._known: dict[str, tuple[float, str]] = {}

    def words(self, host: str) -> str:
        now = time.monotonic()
        at, words = self._known.get(host, (-self.EVERY_S, ""))
        if now - at >= self.EVERY_S:
            holding = self._holdings[host]
            here, all_ = _bytes_here(holding), sum(holding.closed.values())
            words = f"{human_bytes(here)} of {human_bytes(all_)}"
            self._known[host] = now, words
        return words


def _verified(holding: Holding) -> _Came:
    """Read what is new, make the index, hold both against the node's list."""
    folder = holding.folder
    came = _Came(holding)
    known: dict[str, int] = _receipt(folder).get("verified", {})
    fresh: dict[str, int] = {}
    for name, size in holding.closed.items():
        path = folder / name
        here = path.stat().st_size if path.is_file() else -1
        whole = here == size if name.endswith(WARC) else here >= size
        if not whole:
            came.wrong.append(f"{path} has {max(0, here):,} of {size:,} bytes")
            continue
        came.files += 1
        came.bytes += here
        if name.endswith(WARC) and known.get(name) != size:
            fresh[name] = size
    came.new = len(fresh)
    index = folder / "index.cdxj"
    if (folder / "log").is_dir() and (fresh or not index.is_file()):
        came.wrong += _milliarde("index", str(folder))
    for some in _pieces(list(fresh), _FILES_PER_CALL):
        came.wrong += _milliarde("verify", *(str(folder / name) for name in some))
    if not came.wrong and fresh and index.is_file():
        came.wrong += _milliarde("verify", str(folder / next(iter(fresh))), str(index))
    if not came.wrong:
        _write(folder / RECEIPT, {"born": holding.born, "verified": {**known, **fresh}})
    return came


def _pieces(whole: Sequence[str], most: int) -> Iterable[Sequence[str]]:
    return (whole[start : start + most] for start in range(0, len(whole), most))


def _milliarde(*words: str) -> list[str]:
    """Run a command of the node's own on what came; answers what it complains of."""
    done = subprocess.run(
        [sys.executable, "-m", "node", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )
    if done.returncode == 0:
        return []
    return done.stdout.splitlines()[:-1] or [f"milliarde {words[0]} ended with {done.returncode}"]


def _write(path: Path, told: object) -> None:
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(json.dumps(told), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise DiskError(f"{path} can't be written: {error.strerror}") from None


def _show(came: list[_Came], into: Path) -> None:
    for each in sorted(came, key=lambda each: natural(each.holding.host)):
        still_open = len(each.holding.files) - len(each.holding.closed)
        rest = f"; {still_open} still being written" if still_open else ""
        state = "NOT WHOLE" if each.wrong else "whole"
        sys.stdout.write(
            f"{each.holding.host}: {each.files:,} files, {human_bytes(each.bytes)}, "
            f"{each.new:,} new WARC files, {state}{rest}\n"
        )
        for words in each.wrong:
            sys.stderr.write(f"{each.holding.host}: {words}\n")
    sys.stderr.write(f"they are in {into}\n")


def _note(fleet: Fleet, came: list[_Came], *, free: bool) -> ExitCode:
    """Mark the nodes that have nothing left to be collected, and free room on those that shall."""
    marks = {each.holding.host: each.holding.now_s for each in came if each.holding.all_closed}
    freed = {each.holding.host: each.holding.may_go() for each in came} if free else {}
    packed = {
        host: base64.b64encode("\n".join(files).encode()).decode() for host, files in freed.items() if files
    }
    hosts = marks.keys() | packed.keys()
    if not hosts:
        return ExitCode.OK
    run = play(
        fleet.only(*hosts),
        "operate/collected",
        variables={"milliarde_marks": marks, "milliarde_freed": packed},
    )
    nodes.trouble(run)
    for host in sorted(freed, key=natural):
        holding = next(each.holding for each in came if each.holding.host == host)
        room = sum(holding.files[name][0] for name in freed[host])
        sys.stdout.write(f"{host}: {len(freed[host]):,} WARC files freed, {human_bytes(room)}\n")
    return run.code
