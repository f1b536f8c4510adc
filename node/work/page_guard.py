"""What keeps a page from taking the node's parsers with it.

Reading a page is work for libraries that can't be interrupted, so what takes too long is ended from outside
of them: the kernel counts the CPU time of the page in hand and ends the process. (Not the time that passes:
a page is not to blame for a busy machine or a slow disk.) Which page it was stands in a note that outlives
the process, why it ended in a file beside it; who takes its place reads both. So only the page in hand is
charged. It costs 1 µs a page.
"""

from __future__ import annotations

import contextlib
import faulthandler
import re
import resource
import signal
import traceback
from pathlib import Path
from typing import Final

from node.errors import DiskError
from node.settings import Settings
from node.store import in_hand, spool
from node.store.clock import boottime_ms
from node.store.in_hand import InHand

STUCK_FACTOR: Final = 4
"""A page that is in hand for this many deadlines of time, computing or not, has its parser ended by whoever
supervises it (under systemd: ``WatchdogSec``)."""
MAX_WORDS: Final = 8_192

_CRASH: Final = "Fatal Python error: "
_STACK: Final = "Stack (most recent call first):"
_PLACE: Final = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line ([0-9]+),? in (\w+)')


class Unguarded:
    """Guards nothing: for a parser that is no process of its own."""

    def begin(self, page: bytes) -> None:
        """This page is being read from now on, and the one before it no more."""

    def end(self) -> None:
        """No page is."""


class PageGuard(Unguarded):
    """Notes the page in hand, ends the process where one takes too long, and tells why the last one ended.

    For one process per ``number`` at a time. Raises ``DiskError`` where its files can't be made.
    """

    def __init__(self, settings: Settings, number: int) -> None:
        self.deadline_s = settings.parser.page_deadline_s
        words = words_path(settings, number)
        try:
            self._in_hand = InHand(note_path(settings, number))
            self._words = words.open("ab", buffering=0)
            said = words.read_bytes()[:MAX_WORDS]
        except OSError as error:
            raise DiskError(f"{words.parent} can't be written: {error.strerror}") from None
        self.left_behind = self._in_hand.left_behind
        """The page over which the parser died that was here before."""
        self.last_words = said.decode(errors="replace")
        """What that one wrote as it died: a stack, if anything."""
        # Both write by themselves, whatever the interpreter is busy with.
        faulthandler.enable(self._words, all_threads=False)
        faulthandler.register(signal.SIGPROF, self._words, all_threads=False, chain=True)

    @property
    def reason(self) -> str:
        """Why the last one ended, for people."""
        return reason(self.last_words, self.deadline_s)

    def settled(self) -> None:
        """What was left behind has been seen to."""
        self._in_hand.clear()
        self.left_behind = None
        self._words.truncate(0)

    def begin(self, page: bytes) -> None:
        self._in_hand.note(page)
        signal.setitimer(signal.ITIMER_PROF, self.deadline_s)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._in_hand.clear()

    def failed(self, error: BaseException) -> None:
        """This exception, which nobody foresaw, is about to end the process."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        lines = traceback.format_exception_only(error)
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            lines.append(f'  File "{frame.filename}", line {frame.lineno} in {frame.name}\n')
        with contextlib.suppress(OSError):
            self._words.write("".join(lines).encode(errors="replace")[:MAX_WORDS])


def note_path(settings: Settings, number: int) -> Path:
    """Where a parser notes which page it has in hand."""
    return settings.data / "run" / f"parser-{number}.page"


def words_path(settings: Settings, number: int) -> Path:
    """Where its last words stand."""
    return settings.data / "run" / f"parser-{number}.died"


def reason(words: str, deadline_s: float) -> str:
    """One line for people of what a parser wrote as it died."""
    first = words.lstrip().partition("\n")[0].strip()
    if first.startswith(_CRASH):
        what = f"crashed: {first.removeprefix(_CRASH)}"
    elif first == _STACK:
        what = f"took more than {deadline_s:g} s of CPU time"
    elif first:
        what = f"failed: {first}"
    else:
        what = "was killed"
    place = _PLACE.search(words)
    where = f" ({place[1]}, line {place[2]}, {place[3]})" if place else ""
    return what[: spool.MAX_WHY - len(where)] + where


def is_stuck(settings: Settings, number: int, pid: int) -> bool:
    """Has this process, parser ``number``, had one page in hand for so long that it won't end by itself?"""
    note = in_hand.read(note_path(settings, number))
    if note is None or note.pid != pid:
        return False
    return boottime_ms() - note.since_ms > 1000 * STUCK_FACTOR * settings.parser.page_deadline_s


def bound_memory(more_bytes: int = 512 << 20) -> None:
    """Let this process grow by ``more_bytes`` and no further.

    A page made to blow up the tree builder then meets an end there, is read without a tree, and the
    machine goes on.
    """
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    now = pages * resource.getpagesize()
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more_bytes if hard == resource.RLIM_INFINITY else min(hard, now + more_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
