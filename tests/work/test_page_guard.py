"""Pages that hang or kill a parser: real parser processes on a real spool, and who is charged for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node import cli
from node import settings as settings_of
from node.rules.html_flat import is_lopsided
from node.settings import Settings
from node.store import in_hand, keys, spool
from node.store.connection import Store
from node.store.frontier import Frontier
from node.store.spool import DeadLetter, Fate, Pointer
from node.work import dead
from node.work.local import LocalNode
from node.work.page_guard import note_path, reason, words_path
from tests.redis_server import RedisServer
from tests.store.responses import response, write
from tests.whole.crawl import until

HANG = "https://poison.test/hang"
pytestmark = pytest.mark.timeout(120)


def hanging_page(size: int) -> bytes:
    """In balance, and yet slow: each paragraph is looked for among all the elements that are open."""
    depth, paragraphs = size // 22, size // 14
    return b"<div>" * depth + b"<p></p>" * paragraphs + b"</div>" * depth


class Node:
    """A spool with pages in it, and parsers that can be started, one process each."""

    def __init__(self, folder: Path, socket: Path, **parser: float) -> None:
        self.folder = folder
        config = {"data": str(folder), "redis_socket": str(socket)}
        limits = {"max_page_bytes": 2_000_000, "page_deadline_s": 1.0, "in_hand": 20} | parser
        self.config = folder / "node.toml"
        self.config.write_text(
            "[paths]\n"
            + "".join(f'{name} = "{text}"\n' for name, text in config.items())
            + "[crawl]\ndelay_s = 0.0\nscope = 'open'\n[parser]\n"
            + "".join(f"{name} = {number}\n" for name, number in limits.items())
        )
        self.settings: Settings = settings_of.load(self.config)
        self.store = Store(self.settings)
        self.frontier = Frontier(self.settings)
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def put(self, pages: dict[str, bytes]) -> None:
        """Archive pages, and put them onto the spool."""
        responses = [response(url, body) for url, body in pages.items()]
        places = write(self.settings.warc_folder, *responses)
        for url, place in zip(pages, places, strict=True):
            self.store.redis.execute_command("XADD", keys.SPOOL, "*", "p", Pointer(place, 0, url).pack())
        self.store.redis.execute_command("HINCRBY", keys.LEDGER, "spooled", len(pages))
        self.store.redis.execute_command("HINCRBY", keys.LEDGER, "admitted", len(pages))

    def start(self, number: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "node", "parser", str(number), "--config", str(self.config)]
        with (self.folder / "stderr").open("ab") as out:
            self.running[number] = subprocess.Popen(words, stderr=out)
        return self.running[number]

    def tend(self) -> None:
        """Start again who died, as a supervisor does."""
        for number, running in list(self.running.items()):
            if running.poll() is not None:
                self.start(number)

    @property
    def left(self) -> int:
        return int(self.store.redis.execute_command("XLEN", keys.SPOOL))

    def until_done(self) -> None:
        def done() -> bool:
            self.tend()
            return self.left == 0

        until(done, f"the spool is empty; {self.said()}", every_s=0.1)

    def said(self) -> str:
        path = self.folder / "stderr"
        return path.read_text() if path.exists() else ""

    def looked_after(self, local: LocalNode) -> bool:
        """A supervisor's turn; is the spool empty?"""
        local.look_after()
        return self.left == 0

    def letters(self) -> list[DeadLetter]:
        return list(dead.letters(self.store))

    def ledger(self, name: str) -> int:
        return int(self.store.redis.execute_command("HGET", keys.LEDGER, name) or 0)

    def tally(self, name: str) -> int:
        return int(self.store.redis.execute_command("HGET", keys.TALLY, name) or 0)

    def linked(self) -> set[str]:
        """URLs that the frontier was offered."""
        queued = self.store.redis.execute_command("LRANGE", keys.queue(1, "linked.test"), 0, -1)
        return {entry[3:].decode() for entry in queued}

    def close(self) -> None:
        for each in self.running.values():
            if each.poll() is None:
                each.kill()
            each.wait()
        self.store.close()


MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(tmp_path: Path, new_redis: Callable[..., RedisServer]) -> Iterator[MakeNode]:
    made: list[Node] = []

    def make(**parser: float) -> Node:
        made.append(Node(tmp_path, new_redis().socket, **parser))
        made[-1].store.begin()
        return made[-1]

    yield make
    for node in made:
        node.close()


def innocent(count: int) -> dict[str, bytes]:
    """Pages with a link of their own each."""
    return {
        f"https://good.test/{n}": b'<p>hello <a href="https://linked.test/%d">there</a>' % n
        for n in range(count)
    }


def with_poison(count: int, poison: bytes, at: int) -> dict[str, bytes]:
    pages = list(innocent(count).items())
    return dict([*pages[:at], (HANG, poison), *pages[at:]])


def test_a_page_that_hangs_parsers_is_given_up_alone(make_node: MakeNode) -> None:
    """Of 60 pages in hand one takes for ever: it ends two parsers and is given up, the others are read."""
    node = make_node(max_deaths=2, in_hand=80)
    poison = hanging_page(700_000)
    assert not is_lopsided(poison), "it must get a tree"
    node.put(with_poison(60, poison, at=7))
    first = node.start(1)
    until(lambda: first.poll() is not None, "the first parser is ended")
    assert first.returncode == -signal.SIGPROF
    node.start(2)
    node.until_done()
    (letter,) = node.letters()
    assert letter.pointer.url == HANG
    assert letter.why.startswith("parser 2 of 2 took more than 1 s of CPU time (html.py, ")
    assert node.linked() == {f"https://linked.test/{n}" for n in range(60)}
    assert node.ledger("done") == node.ledger("admitted") - node.ledger("queued") == 61
    until(lambda: node.tally("pages_charged") == 2, "the second parser tells of it, too")
    assert "took more than 1 s of CPU time" in node.said()
    assert not node.store.redis.execute_command("EXISTS", keys.SUSPECTS)


def _in_hand(node: Node, number: int, url: str) -> bool:
    """Does parser ``number`` read this page now?"""
    note = in_hand.read(note_path(node.settings, number))
    if note is None or note.pid != node.running[number].pid:
        return False
    found = node.store.redis.execute_command("XRANGE", keys.SPOOL, note.page, note.page)
    return bool(found) and spool.unpack(found[0][1][1].decode()).url == url


def test_a_page_over_which_parsers_die_is_charged_and_no_other(make_node: MakeNode) -> None:
    """SIGKILL, three times, while the same page is in hand: that page is a dead letter, and only that one."""
    node = make_node(page_deadline_s=60.0)
    node.put(with_poison(15, hanging_page(1_500_000), at=3))
    for _ in range(3):
        node.start(1)
        until(lambda: _in_hand(node, 1, HANG), f"the page is in hand; {node.said()}")
        node.running[1].kill()
        node.running[1].wait()
    node.start(1)
    node.until_done()
    (letter,) = node.letters()
    assert (letter.pointer.url, letter.why) == (HANG, "parser 3 of 3 was killed")
    assert len(node.linked()) == 15


def test_who_dies_without_a_page_in_hand_charges_none(make_node: MakeNode) -> None:
    """A parser killed while it waits for Redis, as often as you like, is no page's fault."""
    node = make_node(max_deaths=1)
    node.put(innocent(30))
    node.store.redis.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    for _ in range(2):
        running = node.start(1)
        until(lambda: words_path(node.settings, 1).exists(), "it has begun")
        running.kill()
        running.wait()
    node.store.redis.execute_command("CLIENT", "UNPAUSE")
    node.start(1)
    node.until_done()
    assert node.letters() == []
    assert node.tally("pages_charged") == 0


def test_a_page_that_another_parser_can_read_is_no_dead_letter(make_node: MakeNode) -> None:
    """A page in whose reading a parser was killed is taken over by another at once, read, and forgotten."""
    node = make_node(page_deadline_s=60.0, max_deaths=2)
    node.put({HANG: hanging_page(500_000) + b'<a href="https://linked.test/poison">'})
    node.start(1)
    until(lambda: _in_hand(node, 1, HANG), "the page is in hand")
    node.running[1].kill()
    node.running[1].wait()
    node.start(2)
    node.start(1)
    node.until_done()
    assert node.letters() == []
    assert node.linked() == {"https://linked.test/poison"}
    assert node.tally("pages_charged") == 1
    # tidied with the next charge
    node.put({"https://good.test/": b"hello"})
    until(lambda: node.left == 0, "it is read")
    assert node.store.call(spool.charge(b"1-1", "x", "p1", 2)) is Fate.GONE
    assert not node.store.redis.execute_command("EXISTS", keys.SUSPECTS)


def test_pages_whose_links_are_refused_are_found_one_by_one(make_node: MakeNode) -> None:
    """Where Redis refuses an offer for what is in it, the page is found and given up; no parser dies."""
    node = make_node(max_deaths=2)
    pages = innocent(10) | {HANG: b'<a href="https://damaged.test/1">'}
    node.store.redis.execute_command("SET", keys.queue(1, "damaged.test"), "no list")
    node.put(pages)
    running = node.start(1)
    node.until_done()
    assert node.running[1] is running, "it was not started again"
    (letter,) = node.letters()
    assert letter.pointer.url == HANG
    assert "could not offer its links: WRONGTYPE" in letter.why
    assert len(node.linked()) == 10


def test_dead_letters_are_listed_and_requeued(
    make_node: MakeNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """``dead`` tells when, which and why; ``dead requeue`` has those of a domain parsed again, counted."""
    node = make_node()
    node.put(innocent(3) | {HANG: b'<a href="https://linked.test/9">'})
    files = list(node.settings.warc_folder.glob("*.warc.gz"))
    whole = {}
    for path in files:
        whole[path] = path.read_bytes()
        path.write_bytes(b"?" * len(whole[path]))  # what can't be read is given up at once
    node.start(1)
    node.until_done()
    config = ["--config", str(node.config)]
    assert cli.main(["dead", "--json", "-n", "1", *config]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["dead_letters"][0]["url"], told["more"]) == (HANG, 3)
    assert cli.main(["dead", "list", "good.test", *config]) == 0
    listed = capsys.readouterr().out
    assert "https://good.test/2" in listed
    assert HANG not in listed
    before = node.ledger("done")
    for path in files:
        path.rename(tmp_path / path.name)
    assert cli.main(["dead", "requeue", *config]) == 0
    assert "4 stay, since their WARC files are no longer here" in capsys.readouterr().err
    for path in files:
        (tmp_path / path.name).rename(path)
        path.write_bytes(whole[path])
    assert cli.main(["dead", "requeue", "poison.test", *config]) == 0
    node.until_done()
    assert node.linked() == {"https://linked.test/9"}
    assert cli.main(["dead", "--requeue", *config]) == 0
    assert "3 pages are to be parsed again" in capsys.readouterr().err
    node.until_done()
    assert len(node.linked()) == 4
    assert node.ledger("done") == before
    assert cli.main(["dead", *config]) == 0
    assert capsys.readouterr().out == "the parsers gave up no page\n"


def test_the_spool_keeps_its_account_while_letters_come_and_go(make_node: MakeNode) -> None:
    """Giving up and requeueing move a page between the ledger's places, and change no sum."""
    node = make_node()
    node.put(innocent(2))
    taken = spool.pages_read(node.store.calls([], extra=[spool.read_new("p1", 2, 1)])[0])
    assert node.store.call(spool.give_up(taken[0].id, "why\x1b[2J")) is Fate.GIVEN_UP
    assert node.store.call(spool.give_up(taken[0].id, "again")) is Fate.GONE
    assert (node.left, node.ledger("spooled"), node.ledger("done")) == (1, 1, 1)
    assert node.letters()[0].why == "why\ufffd[2J", "what a page said is safe to print"
    assert dead.requeue(node.store, node.settings.warc_folder) == (1, 0)
    assert (node.left, node.ledger("spooled"), node.ledger("done")) == (2, 2, 0)


def test_a_parser_that_hangs_without_computing_is_ended_by_its_supervisor(tmp_path: Path) -> None:
    """One that is stopped with a page in hand is killed and started again; only that page is charged."""
    node = Node(tmp_path, tmp_path / "redis.sock", max_deaths=1, page_deadline_s=2.0)
    local = LocalNode(node.settings, node.config, fetchers=0, parsers=1, watch=False)
    (child,) = local.children
    try:
        local.start()
        node.store.begin()
        node.put(with_poison(4, hanging_page(1_500_000), at=2))
        local.start_children()
        assert child.process is not None
        node.running[1] = stopped = child.process
        until(lambda: _in_hand(node, 1, HANG), "the page is in hand")
        os.kill(stopped.pid, signal.SIGSTOP)
        until(lambda: node.looked_after(local), "the spool is empty", every_s=0.1)
        assert stopped.returncode == -signal.SIGKILL
        (letter,) = node.letters()
        assert (letter.pointer.url, letter.why) == (HANG, "parser 1 of 1 was killed")
        assert len(node.linked()) == 4
    finally:
        local.kill_children()
        node.store.close()
        local.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "was killed"),
        (
            'Stack (most recent call first):\n  File "/x/html.py", line 7 in read\n',
            "took more than 2 s of CPU time (html.py, line 7, read)",
        ),
        (
            "Fatal Python error: Segmentation fault\n\nStack (most recent call first):\n",
            "crashed: Segmentation fault",
        ),
        (
            'MemoryError\n  File "/x/page.py", line 3 in links\n',
            "failed: MemoryError (page.py, line 3, links)",
        ),
        ("ValueError: " + 400 * "x", "failed: ValueError: " + 400 * "x"),
    ],
)
def test_last_words_are_told_in_one_line(words: str, said: str) -> None:
    """How a parser ended is said in a line of bounded length, with the place where it was."""
    assert reason(words, 2.0) == said[:300]


def test_a_note_outlives_its_process(tmp_path: Path) -> None:
    """What a process noted is there after SIGKILL; what it cleared is not."""
    code = (
        "import os, signal, sys; from pathlib import Path; from node.store.in_hand import InHand;"
        "note = InHand(Path(sys.argv[1])); note.note(b'12-3'); sys.argv[2] == 'clear' and note.clear();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    for how, left in (("keep", b"12-3"), ("clear", None)):
        path = tmp_path / how
        subprocess.run([sys.executable, "-c", code, str(path), how], check=False)
        found = in_hand.InHand(path)
        assert (found.left_behind.page if found.left_behind else None) == left
        found.close()
    raw = (tmp_path / "keep").read_bytes()
    (tmp_path / "keep").write_bytes(b"another boot".ljust(48, b"\0") + raw[48:])
    found = in_hand.InHand(tmp_path / "keep")
    assert found.left_behind is None, "that machine went down with it"
    found.close()
    assert (tmp_path / "keep").stat().st_size == 128
