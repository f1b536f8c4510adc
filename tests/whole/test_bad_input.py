"""What a user can get wrong: one sentence on stderr that says what to do, a named exit code, nothing lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from node.errors import ExitCode
from tests.web.running import MiniWeb
from tests.whole import stored
from tests.whole.crawl import Crawl, milliarde, until

pytestmark = [pytest.mark.whole, pytest.mark.timeout(180)]

SMALL = ("--delay", "0", "--fetchers", "1", "--parsers", "1")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, tls_dir: Path) -> Iterator[MiniWeb]:
    with MiniWeb(
        tmp_path_factory.mktemp("web"), domains=3, pages_per_domain=5, mean_bytes=6_000, tls_dir=tls_dir
    ) as running:
        yield running


def refused(done: subprocess.CompletedProcess[str], code: ExitCode, *words: str) -> None:
    """A command failed as it should: the code, one line that holds the words, nothing on stdout."""
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    said = done.stderr.strip().splitlines()
    assert len(said) == 1, f"one sentence, not {said}"
    for word in words:
        assert word in said[0]
    assert done.stdout == ""


def test_an_unknown_setting(tmp_path: Path) -> None:
    """A setting that does not exist is named, and nothing is begun."""
    out = tmp_path / "out"
    done = milliarde("crawl", "h.test", "--out", out, "--set", "crawl.dealy_s=1")
    refused(done, ExitCode.BAD_SETTINGS, "dealy_s")
    assert not out.exists()


def test_a_missing_setting(tmp_path: Path) -> None:
    """A settings file without what it must have is told which."""
    config = tmp_path / "node.toml"
    config.write_text("[crawl]\ndelay_s = 5.0\n")
    refused(milliarde("status", "--config", config), ExitCode.BAD_SETTINGS, str(config), "paths")
    config.unlink()
    refused(milliarde("status", "--config", config), ExitCode.BAD_SETTINGS, str(config))
    refused(milliarde("status", cwd=tmp_path), ExitCode.BAD_SETTINGS, "--config")


@pytest.mark.parametrize(
    "change", ["crawl.delay_s=5s", "crawl.pages=many", "tls.verify=1", "crawl.scope=all"]
)
def test_a_wrong_unit_or_kind(tmp_path: Path, change: str) -> None:
    """A value of the wrong kind is refused with the setting's name."""
    name = change.partition("=")[0].partition(".")[2]
    done = milliarde("crawl", "h.test", "--out", tmp_path / "out", "--set", change)
    refused(done, ExitCode.BAD_SETTINGS, name)


@pytest.mark.parametrize("words", [("--delay", "5x"), ("--pages", "0"), ("--for", "soon"), ("--set", "a=1")])
def test_wrong_words(tmp_path: Path, words: tuple[str, str]) -> None:
    """A word of the command line that makes no sense is said back, with how to write it."""
    done = milliarde("crawl", "h.test", "--out", tmp_path / "out", *words)
    assert done.returncode == ExitCode.USAGE
    assert repr(words[1]) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url", ["http://[::1", "https://", "not a url", "mailto:us@h.test", "http://h..test/"]
)
def test_a_url_that_is_none(tmp_path: Path, url: str) -> None:
    """A URL that can't be crawled is said back with the reason."""
    done = milliarde("crawl", url, "--out", tmp_path / "out")
    refused(done, ExitCode.BAD_INPUT, repr(url))


def test_nothing_to_crawl(tmp_path: Path) -> None:
    """No seeds, an empty list, a list that is not there: said before anything is begun."""
    refused(milliarde("crawl", "--out", tmp_path / "a"), ExitCode.BAD_INPUT, "--seeds")
    missing = tmp_path / "none.txt"
    refused(milliarde("crawl", "--seeds", missing, "--out", tmp_path / "b"), ExitCode.BAD_INPUT, str(missing))
    empty = tmp_path / "empty.txt"
    empty.write_text("# nobody\n\n")
    refused(milliarde("crawl", "--seeds", empty, "--out", tmp_path / "c"), ExitCode.BAD_INPUT)


def test_junk_among_the_seeds(web: MiniWeb, tmp_path: Path) -> None:
    """Lines that can't be used are reported with their numbers and reasons; the good ones are crawled."""
    seeds = tmp_path / "seeds.txt"
    good = web.ordinary_seeds.read_text().split()
    lines = [
        "# a list",
        good[0],
        "http://[nonsense",
        "",
        good[1],
        "ftp://h.test/file",
        "no seed",
        f"3,{good[2]}",
    ]
    seeds.write_text("\n".join(lines))
    with Crawl(tmp_path / "out", web, *SMALL, "--seeds", seeds) as crawl:
        crawl.run()
    for line in (3, 6, 7):
        assert f"seeds.txt, line {line}: " in crawl.said
    assert crawl.said.count("passed over") == 3
    assert stored.pages(crawl.out) == Counter(web.expected().pages)


def test_no_such_redis(tmp_path: Path) -> None:
    """A command on a node whose Redis is not there says where it looked."""
    config = tmp_path / "node.toml"
    config.write_text('[paths]\ndata = "."\nredis_socket = "gone.sock"\n')
    refused(milliarde("status", "--config", config), ExitCode.NO_STORE, str(tmp_path / "gone.sock"))


@pytest.fixture(scope="module")
def running(web: MiniWeb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """A crawl that does nothing but be there."""
    words = ("--delay", "60", "--fetchers", "1", "--parsers", "1")
    out = tmp_path_factory.mktemp("running") / "out"
    with Crawl(out, web, *words, "--seeds", web.ordinary_seeds) as crawl:
        crawl.start()
        until(lambda: crawl.config.exists() and "fetcher 1" in crawl.children(), "it runs")
        yield crawl
        assert crawl.interrupt() == ExitCode.INTERRUPTED


def test_two_crawls_on_one_folder(running: Crawl) -> None:
    """The second is refused, and the first goes on."""
    done = milliarde("crawl", *running.words)
    refused(done, ExitCode.IN_USE, str(running.out), "stop it first")
    assert running.process is not None
    assert running.process.poll() is None


def test_the_redis_of_another_crawl(running: Crawl) -> None:
    """A process whose frozen settings differ from the crawl's is refused, and told in which."""
    other = running.out / "other.toml"
    other.write_text(running.config.read_text().replace('name = "crawl"', 'name = "another"'))
    refused(milliarde("status", "--config", other), ExitCode.OTHER_CRAWL, "name=another", "name=crawl")
    other.write_text(running.config.read_text().replace("delay_s = 60.0", "delay_s = 30.0", 1))
    refused(milliarde("fetcher", "2", "--config", other), ExitCode.OTHER_CRAWL, "delay_s=30.0")


def test_the_folder_of_another_crawl(web: MiniWeb, tmp_path: Path) -> None:
    """A folder where a crawl with other frozen settings lives is not touched."""
    with Crawl(tmp_path / "out", web, *SMALL, "--pages", "2", "--seeds", web.ordinary_seeds) as crawl:
        crawl.run()
    kept = crawl.config.read_text()
    done = milliarde("crawl", *crawl.words, "--delay", "7")
    refused(done, ExitCode.OTHER_CRAWL, "delay_s=7.0")
    assert crawl.config.read_text() == kept, "the settings of the crawl that lives there stay"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way, or a place where nobody can make folders: said with the path."""
    (tmp_path / "file").write_text("here I am")
    for out in (tmp_path / "file", tmp_path / "file" / "out", Path("/proc/out")):
        refused(milliarde("crawl", "h.test", "--out", out), ExitCode.NOT_WRITABLE, str(out))


def test_a_port_that_is_taken(web: MiniWeb, tmp_path: Path) -> None:
    """Where the metrics' port is taken, the crawl does not begin, and says which port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        crawl = Crawl(
            tmp_path / "out",
            web,
            *(*SMALL, "--seeds", web.ordinary_seeds),
            settings=[f"watch.port={port}"],
        )
        done = milliarde("crawl", *crawl.words)
    assert done.returncode == ExitCode.IN_USE
    assert str(port) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many megabytes, where that is allowed."""
    mounted: list[Path] = []

    def mount(megabytes: int) -> Path:
        place = tmp_path / "disk"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "milliarde-test", place],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip("mounting is not allowed here")
        mounted.append(place)
        return place

    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    yield mount
    for place in mounted:
        with contextlib.suppress(OSError):
            subprocess.run(["umount", "--lazy", place], check=False)


def test_a_disk_without_room(small_disk: Callable[[int], Path]) -> None:
    """Less room than the reserve at the start: nothing is begun, and the setting is named."""
    out = small_disk(16) / "out"
    done = milliarde("crawl", "h.test", "--out", out)
    refused(done, ExitCode.NOT_WRITABLE, str(out), "archive.disk_reserve_bytes")
    assert not list((out / "warc").iterdir())


def test_a_disk_that_fills(small_disk: Callable[[int], Path], tls_dir: Path, tmp_path: Path) -> None:
    """A disk that fills stops the fetching, not the crawl: with room again it goes on and all is there."""
    disk = small_disk(24)
    (disk / "ballast").write_bytes(bytes(14_000_000))
    with MiniWeb(
        tmp_path / "web", domains=6, pages_per_domain=60, mean_bytes=100_000, tls_dir=tls_dir
    ) as web:
        crawl = Crawl(
            disk / "out",
            web,
            *(*SMALL, "--seeds", web.ordinary_seeds),
            settings=["archive.disk_reserve_bytes=3000000"],
        )
        with crawl:
            crawl.start()
            until(lambda: "fetcher 1" in crawl.children(), "it runs")
            until(
                lambda: "disk_low" in {p.get("waiting") for p in crawl.status()["processes"].values()}, "full"
            )
            (disk / "ballast").unlink()
            assert crawl.wait() == 0, crawl.said
        assert stored.indexed_pages(crawl.out) == Counter(web.expected().pages)
