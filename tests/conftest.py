"""What all tests share: the outside test data, the scores printed at the end, a real Redis."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
import redis

from tests.redis_server import RedisServer, find_redis_server
from tests.scores import missed

REPO = Path(__file__).resolve().parent.parent

# A shared machine has no deadlines. In CI the same examples each time; elsewhere new ones, and how to
# repeat them.
hypothesis.settings.register_profile("laptop", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", parent=hypothesis.settings.get_profile("laptop"), derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "laptop")

LOCKS = pytest.StashKey[Path]()

Score = Callable[[str, int, int], None]


def missing(what: str) -> NoReturn:
    """Something outside the repository is not there: a skip on a laptop, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} (and CI must have it)", pytrace=False)
    pytest.skip(what)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests marked ``alone`` have the machine to themselves: other workers' tests wait for them.

    Two locks: without the first, through which each test passes, one that wants to be alone could wait
    for ever for a moment in which nobody runs. Waiting does not count towards a test's timeout.
    """
    folder = item.config.stash[LOCKS]
    alone = item.get_closest_marker("alone") is not None
    with (folder / "door").open("w") as door, (folder / "machine").open("w") as machine:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Where the locks are: one folder for all workers of a run."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"milliarde-tests-{run}"
    folder.mkdir(mode=0o700, exist_ok=True)
    config.stash[LOCKS] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Whoever started the run takes the locks away."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(config.stash[LOCKS], ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Outside test data: ``data`` in ``$MILLIARDE_SHARED``, else in ``shared`` beside the checkout."""
    folder = Path(os.environ.get("MILLIARDE_SHARED") or REPO.parent / "shared") / "data"
    if not folder.is_dir():
        missing(f"outside test data is not at {folder}")
    return folder


@pytest.fixture
def score(request: pytest.FixtureRequest) -> Iterator[Score]:
    """Call as ``score(name, got, of)``: how we did on other people's cases, printed at the end of the run.

    What ``tests/scores.py`` states must come out so; else the test fails, after it has said what it has to.
    """
    wrong = []

    def record(name: str, got: int, of: int) -> None:
        # A report carries its test's properties home, from xdist's workers too.
        request.node.user_properties.append(("score", (name, got, of)))
        wrong.append(missed(name, got, of))

    yield record
    if any(wrong):
        pytest.fail("; ".join(filter(None, wrong)), pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the scores, sorted by name."""
    scores = sorted(
        tuple(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, value in report.user_properties
        if key == "score"
    )
    if scores:
        terminalreporter.section("scores")
        width = max(len(name) for name, _, _ in scores)
        for name, got, of in scores:
            terminalreporter.write_line(f"{name:<{width}}  {got:,} of {of:,} ({got / max(of, 1):.1%})")


@pytest.fixture(scope="session")
def redis_binary() -> str:
    """Path of the Redis (or Valkey) server to test against."""
    binary = find_redis_server()
    if binary is None:
        missing("no redis-server or valkey-server on PATH or in the venv (scripts/setup installs one)")
    return binary


@pytest.fixture(scope="session")
def redis_server(redis_binary: str) -> Iterator[RedisServer]:
    """This run's (with xdist: this worker's) own server, nothing on disk. Not for tests that kill it."""
    server = RedisServer(redis_binary)
    server.start()
    yield server
    server.close()


@pytest.fixture
def new_redis(redis_binary: str) -> Iterator[Callable[..., RedisServer]]:
    """Call as ``new_redis(appendonly="yes")``: a started server of the test's own, free to be killed."""
    servers: list[RedisServer] = []

    def start(**options: str) -> RedisServer:
        server = RedisServer(redis_binary, **options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A blocking client (replies are bytes) on an empty database with no scripts loaded."""
    with redis_server.client() as client:
        client.flushall()
        client.script_flush()
        yield client
