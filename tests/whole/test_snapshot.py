"""Snapshot and restore: a crawl goes on elsewhere from a moment in the middle, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from node import settings as settings_of
from node.errors import ExitCode, MilliardeError
from node.store import keys
from node.store.exclusions import in_force
from node.store.spool import Pointer
from node.store.transfer import Manifest
from node.store.warc import Position
from node.work import backup, restore
from node.work.opened import opened
from tests.web.log import now_ms
from tests.web.running import MiniWeb
from tests.whole import manners, stored
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(240)]

DELAY_S = 0.5
WORDS = ("--delay", str(DELAY_S), "--fetchers", "2", "--parsers", "1")
OFTEN_A_NEW_FILE = "archive.rotate_bytes=20000"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    folder = tmp_path_factory.mktemp("web")
    with MiniWeb(folder, domains=6, pages_per_domain=14, mean_bytes=6_000, tls_dir=tls_dir) as running:
        yield running


def snapshot(crawl: Crawl, folder: Path, *words: str) -> dict[str, object]:
    """Take one; what it says of itself."""
    crawl.command("snapshot", folder, *words)
    assert not (folder / "incomplete").exists()
    manifest: dict[str, object] = json.loads((folder / "manifest.json").read_text())
    return manifest


def nothing(_count: int, _of: int) -> None:
    """Who listens to progress."""


def snapshot_to(crawl: Crawl, folder: Path, on_bytes: Callable[[int, int], None] = nothing) -> Manifest:
    """As ``milliarde snapshot FOLDER --archive`` does."""
    settings = settings_of.load(crawl.config)
    with opened(settings) as node:
        return backup.snapshot(node.store, settings, folder, with_archive=True, on_bytes=on_bytes)


def restored(folder: Path, out: Path) -> Crawl:
    """A crawl in ``out`` made of a snapshot, to be started without further words."""
    done = milliarde("restore", folder, "--out", out)
    assert done.returncode == 0, done.stderr
    return Crawl(out, None, "--fetchers", "2", "--parsers", "1")


def is_sound(crawl: Crawl) -> None:
    assert crawl.summary["reason"] == "finished"
    assert crawl.summary["ledger"]["gap"] == 0
    assert "sound" in crawl.command("check").stdout


def test_a_running_crawl_goes_on_elsewhere(web: MiniWeb, tmp_path: Path) -> None:
    """With its archive: every page once in the restored one, no domain visited before its delay has passed;
    the original never noticed."""
    settings = ["crawl.hop_gap_s=0.1", OFTEN_A_NEW_FILE]
    with Crawl(tmp_path / "out", web, *WORDS, "--seeds", web.ordinary_seeds, settings=settings) as crawl:
        crawl.start()
        until(lambda: len(list((crawl.out / "warc").glob("*.gz"))) > 1, "some files are full")
        told = snapshot_to(crawl, tmp_path / "copy")
        before = len(web.requests())
        until(lambda: len(web.requests()) > before + 5, "the original goes on")
        assert "died" not in crawl.said
        crawl.kill_everything()
    files = {file.path for file in told.files}
    assert any(path.endswith(".warc.gz") for path in files)
    same = next(path for path in files if path.endswith(".warc.gz"))
    assert (tmp_path / "copy" / same).stat().st_ino == (crawl.out / same).stat().st_ino, "no room is taken"

    with restored(tmp_path / "copy", tmp_path / "back") as back:
        assert back.status()["ledger"]["admitted"] == told.ledger["admitted"]
        begun_ms, before = now_ms(), len(web.requests())
        assert back.start().wait() == 0, back.said
        assert "every domain is left in peace" in back.said
        is_sound(back)
    requests = web.requests()[before:]
    assert min(each.t_ms for each in requests) >= begun_ms + 1000 * DELAY_S
    for gap, first, second in manners.gaps_ms(requests):
        assert gap >= 100, f"{first.url} -> {second.url}"
    assert stored.pages(back.out) == stored.indexed_pages(back.out) == Counter(web.expected().pages)


def test_a_crawl_that_was_cut_off_goes_on_without_its_archive(web: MiniWeb, tmp_path: Path) -> None:
    """By default only those WARC files come along that pages on the spool lie in, or that were being written:
    the old archive and the new one together hold each page once."""
    settings = ["crawl.hop_gap_s=0.1", OFTEN_A_NEW_FILE]
    with Crawl(tmp_path / "out", web, *WORDS, "--seeds", web.ordinary_seeds, settings=settings) as crawl:
        crawl.start()
        until(lambda: len(list((crawl.out / "warc").glob("*.gz"))) > 2, "some files are full")
        os.kill(crawl.children()["parser 1"], signal.SIGSTOP)
        until(lambda: crawl.status()["spool"]["depth"] > 2, "pages wait for the parser")
        crawl.kill_everything()
    told = snapshot(crawl, tmp_path / "copy")
    assert told["ledger"]["spooled"] > 2  # type: ignore[index]
    there = {path.name for path in (crawl.out / "warc").iterdir()}
    copied = {path.name for path in (tmp_path / "copy" / "warc").iterdir()}
    assert copied < there
    with restored(tmp_path / "copy", tmp_path / "back") as back:
        assert back.start().wait() == 0, back.said
        is_sound(back)
    assert back.summary["dead_letters"] == 0, "all that was to be parsed was there"
    # what was open is closed by whoever goes on: together they are one archive
    for path in (back.out / "warc").iterdir():
        for name in (path.name, f"{path.name}.open"):
            (crawl.out / "warc" / name).unlink(missing_ok=True)
        shutil.copy(path, crawl.out / "warc" / path.name)
    assert stored.pages(crawl.out) == Counter(web.expected().pages)


@pytest.fixture(scope="module")
def small(web: MiniWeb, tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A crawl that has ended."""
    crawl = Crawl(tmp_path_factory.mktemp("small") / "out", web, *WORDS, "site-00001.test", "--pages", "2")
    crawl.run()
    return crawl


@pytest.fixture(scope="module")
def whole(small: Crawl, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of it."""
    folder = tmp_path_factory.mktemp("snapshot") / "whole"
    snapshot(small, folder)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """One that may be spoiled."""
    return shutil.copytree(whole, tmp_path / "copy")


@contextmanager
def refused(code: ExitCode, *words: str) -> Iterator[None]:
    """What is done within is refused, with a code of its own and these words."""
    with pytest.raises(MilliardeError) as raised:
        yield
    assert raised.value.exit_code == code
    for each in words:
        assert each in str(raised.value)


def restore_to(copy: Path, out: Path, on_bytes: Callable[[int, int], None] = nothing) -> restore.Restored:
    """As ``milliarde restore COPY --out OUT`` does."""
    settings = restore.settings_for_folder(copy, out)
    return restore.restore(copy, settings, with_settings=True, on_bytes=on_bytes)


def _without_manifest(copy: Path) -> None:
    (copy / "manifest.json").unlink()


def _being_made(copy: Path) -> None:
    (copy / "incomplete").write_text("")


def _a_flipped_bit(copy: Path) -> None:
    path = next((copy / "redis").rglob("*.incr.aof"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _a_file_less(copy: Path) -> None:
    next((copy / "log").glob("*.jsonl")).unlink()


def _cut_short(copy: Path) -> None:
    path = next((copy / "redis").rglob("*.incr.aof"))
    path.write_bytes(path.read_bytes()[:-10])


def _told(**changes: object) -> Callable[[Path], None]:
    def change(copy: Path) -> None:
        path = copy / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


OUTSIDE = [{"path": "../elsewhere", "bytes": 0, "sha256": ""}]


@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (_without_manifest, ExitCode.BAD_INPUT, "no whole snapshot"),
        (_being_made, ExitCode.BAD_INPUT, "no whole snapshot"),
        (_a_flipped_bit, ExitCode.CHECK_FAILED, "is not as it was"),
        (_a_file_less, ExitCode.CHECK_FAILED, "is not there"),
        (_cut_short, ExitCode.CHECK_FAILED, "bytes, not"),
        (_told(schema="1"), ExitCode.OTHER_CRAWL, "layout 1"),
        (_told(fingerprint="name=other"), ExitCode.OTHER_CRAWL, "there name=other"),
        (_told(ledger={"admitted": 7}), ExitCode.CHECK_FAILED, "does not hold what the snapshot says"),
        (_told(format="milliarde snapshot 99"), ExitCode.BAD_INPUT, "no list of a snapshot's files"),
        (_told(files=OUTSIDE), ExitCode.BAD_INPUT, "no name of a file"),
    ],
)
def test_a_snapshot_that_can_not_be_used(
    copy: Path, tmp_path: Path, spoil: Callable[[Path], None], code: ExitCode, words: str
) -> None:
    """It is refused in words and with a code of its own, and nothing is left where it was to go."""
    spoil(copy)
    with refused(code, words):
        restore_to(copy, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_refusals_are_told(copy: Path, tmp_path: Path) -> None:
    """The command ends with the code and one sentence, without a trace."""
    _a_flipped_bit(copy)
    done = milliarde("restore", copy, "--out", tmp_path / "back")
    assert done.returncode == ExitCode.CHECK_FAILED
    assert done.stderr.startswith("milliarde restore: redis/")
    assert done.stderr.count("\n") == 1


def test_where_a_crawl_is_nothing_is_restored(small: Crawl, whole: Path, tmp_path: Path) -> None:
    """Neither over a crawl, nor beside a Redis that runs, nor into another shard's node."""
    listing = sorted(small.out.rglob("*"))
    with refused(ExitCode.IN_USE, "holds a crawl already"):
        restore_to(whole, small.out)
    assert sorted(small.out.rglob("*")) == listing
    settings = settings_of.load(small.config)
    with opened(settings), refused(ExitCode.IN_USE, "a Redis answers"):
        restore.restore(whole, settings, with_settings=False, on_bytes=nothing)
    tree = {"paths": {"data": str(tmp_path / "node")}, "crawl": {"name": "another"}}
    with refused(ExitCode.OTHER_CRAWL, "name=another", "name=crawl"):
        restore.restore(whole, settings_of.build(tree), with_settings=False, on_bytes=nothing)
    assert not (tmp_path / "node").exists()


def test_a_node_that_has_its_own_settings(small: Crawl, whole: Path, tmp_path: Path) -> None:
    """Where node.toml says, its settings stay and so does a list of excluded names that it has; what was cut
    off before is in nobody's way."""
    node = tmp_path / "node"
    node.mkdir()
    (node / "excluded.names").write_text("newer")
    (node / ".restoring" / "redis").mkdir(parents=True)
    config = tmp_path / "node.toml"
    text = small.config.read_text().replace(str(small.out), str(node))
    config.write_text(text)
    done = milliarde("restore", whole, "--config", config)
    assert done.returncode == 0, done.stderr
    assert config.read_text() == text
    assert not (node / "node.toml").exists()
    assert not (node / ".restoring").exists()
    told = json.loads(milliarde("status", "--json", "--config", config).stdout)
    assert told["pages"] == small.summary["pages"]
    assert (node / "excluded.names").read_text() == "newer"


def test_a_folder_that_is_taken(small: Crawl, copy: Path, tmp_path: Path) -> None:
    """A second snapshot never takes the first one's place, nor that of anything else; one that was cut off
    gives way."""
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with refused(ExitCode.IN_USE, "holds a snapshot of 20"):
        snapshot_to(small, copy)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    other = tmp_path / "photos"
    other.mkdir()
    (other / "me.jpg").touch()
    with refused(ExitCode.IN_USE, "holds other things"):
        snapshot_to(small, other)
    with refused(ExitCode.BAD_INPUT, "the crawl itself"):
        snapshot_to(small, small.out / "warc" / "x")
    (copy / "manifest.json").unlink()
    _being_made(copy)
    snapshot_to(small, copy)
    restore_to(copy, tmp_path / "back")


def test_ctrl_c_leaves_nothing_half(small: Crawl, whole: Path, tmp_path: Path) -> None:
    """Interrupted while files are copied, neither command leaves anything."""

    def interrupt(_count: int, _of: int) -> None:
        raise KeyboardInterrupt

    there = tmp_path / "there"
    there.mkdir()
    for folder in (there, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            snapshot_to(small, folder, interrupt)
    with pytest.raises(KeyboardInterrupt):
        restore_to(whole, tmp_path / "back", interrupt)
    assert list(tmp_path.rglob("*")) == [there]


def test_lists_come_along(web: MiniWeb, tmp_path: Path) -> None:
    """The list of domains, which is part of what a crawl is, and that of excluded names are in the snapshot:
    it needs nothing of the machine it was made on."""
    domains, never = tmp_path / "my domains.csv", tmp_path / "never.txt"
    domains.write_text("1,site-00001.test\n2,site-00002.test\n")
    never.write_text("site-00002.test\n")
    words = ("site-00001.test", "--pages", "1", "--exclude-list", never)
    settings = ['crawl.scope="list"', f'crawl.domain_list="{domains}"']
    crawl = Crawl(tmp_path / "out", web, *WORDS, *words, settings=settings)
    crawl.run()
    snapshot_to(crawl, tmp_path / "copy")
    domains.unlink()
    shutil.rmtree(crawl.out)
    back = restore_to(tmp_path / "copy", tmp_path / "back").settings
    assert back.crawl.domain_list == str(tmp_path / "back" / "domains.csv")
    with opened(back) as node:
        exclusions = in_force(node.store, back.data)
        assert exclusions.covers("www.site-00002.test")
        assert not exclusions.covers("site-00001.test")


def test_a_page_without_its_bytes_is_told(whole: Path, tmp_path: Path) -> None:
    """Where a page on the spool lies in no file of the snapshot, restore counts it."""
    settings = restore_to(whole, tmp_path / "first").settings
    lost = Pointer(Position("crawl-f09-000001.warc.gz", 0, 10), 0, "https://a.test/")
    with opened(settings) as node:
        node.store.redis.execute_command("XADD", keys.SPOOL, "*", "p", lost.pack())
        backup.snapshot(node.store, settings, tmp_path / "copy", with_archive=False, on_bytes=nothing)
    assert restore_to(tmp_path / "copy", tmp_path / "second").without_bytes == 1


def test_no_room(small: Crawl, whole: Path, tmp_path: Path) -> None:
    """Where it does not fit, nothing is begun, and it is said how much is wanted."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "milliarde-test", str(where)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        with refused(ExitCode.NOT_WRITABLE, "are needed", "make room"):
            snapshot_to(small, where / "copy")
        with refused(ExitCode.NOT_WRITABLE, "are needed", "make room"):
            restore_to(whole, where / "back")
        assert list(where.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)
