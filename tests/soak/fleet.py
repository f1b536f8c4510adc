"""What takes an operator of a fleet minutes: a deploy that fails on its first node, what mends it, a restart
of all nodes one by one, a disk that is lost, and fewer and more processes than before. On the machines of the
fleet test, which has the rest; the crawl goes on meanwhile, and at the end nothing is lost and no gap was
broken.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.fleet import base, proof
from tests.fleet.crawling import DATA, DELAY_S, FETCHERS, FIRST, HOP_GAP_S, PARSERS, SECOND, Story, begun
from tests.fleet.operator import workers
from tests.soak.verdict import Claim, Verdict
from tests.web.log import now_ms
from tests.web.shape import domain_name
from tests.whole.crawl import until

HELP = "three machines: a deploy that fails, a restart of all nodes, a lost disk, fewer processes and more"

_BROKEN = "/etc/systemd/system/milliarde-watch.service.d/broken.conf"


def options(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
    """One step after the other; what comes after one that does not hold is not tried."""
    try:
        base.base()
    except base.Unavailable as error:
        raise RuntimeError(f"no machines can be had here: {error}") from None
    lacking = [program for program in ("rsync", "blkdiscard") if shutil.which(program) is None]
    if lacking:
        raise RuntimeError(f"there is no {' and no '.join(lacking)} here")
    claims: list[Claim] = []
    folder = work / "fleet"
    folder.mkdir()
    with begun(folder) as story:
        for what, step in STEPS:
            say(what)
            began = time.monotonic()
            try:
                measured, holds = step(story), True
            except AssertionError as error:
                measured, holds = str(error)[-1_000:].replace("\n", " / ").replace("|", "¦"), False
            claims.append(Claim(what, f"{measured}; {time.monotonic() - began:.0f} s", holds))
            if not holds:
                break
    return Verdict(tuple(claims), ())


def _up(story: Story) -> str:
    story.operator.run("up")
    story.goes_on()
    story.wheels.begin(SECOND)
    return f"{len(story.fleet.boxes)} machines"


def _a_failed_deploy(story: Story) -> str:
    story.wheels.wait()
    first, *others = story.fleet
    before = [workers(box) for box in others]
    first.ssh(f"printf '[Service]\\nExecStartPre=/bin/false\\n' > {_BROKEN}")
    told = story.operator.run("deploy", ends="failed")
    assert "milliarde-watch.service" in told, told
    assert told.count("not begun") == len(others), told
    assert [workers(box) for box in others] == before, "the others' processes are not those they were"
    versions = [box.ssh("milliarde --version").stdout.split()[-1] for box in others]
    assert versions == [FIRST] * len(others), versions
    story.goes_on(*others)
    return f"it names the unit; the others run {FIRST}, by the same processes"


def _a_deploy_that_mends(story: Story) -> str:
    first = story.fleet.boxes[0]
    first.ssh(f"rm {_BROKEN} && systemctl daemon-reload && systemctl reset-failed")
    story.operator.run("deploy")
    story.began_one_after_the_other()
    versions = story.operator.status()["totals"]["versions"]
    assert versions == [SECOND], versions
    story.goes_on()
    return f"all run {SECOND}, one after the other"


def _a_restart(story: Story) -> str:
    before = [frozenset(found.values()) for found in story.fleet.each(workers)]
    pages = story.operator.status()["totals"]["pages"]
    story.operator.run("restart")
    for box, ended in zip(story.fleet, before, strict=True):
        story.at_full_strength(box, without=ended)
    story.began_one_after_the_other()
    after = story.operator.status()["totals"]["pages"]
    assert after >= pages, f"{after} pages after {pages}"
    story.goes_on()
    return f"{pages} pages before, {after} after; all processes are others"


def _a_lost_disk(story: Story) -> str:
    """Of a node with an excluded domain, so that it shows that the list came back, too."""
    domain = domain_name(0)
    story.operator.run("exclude", domain, "--reason", "its owner asks for it")
    excluded_ms = now_ms()
    box = story.owner(domain)
    others = [each for each in story.fleet if each is not box]
    before = [workers(each) for each in others]
    box.kill_leader()
    box.lose_disk()
    box.boot()
    assert box.ssh(f"findmnt {DATA}", check=False).stdout == "", "there is a disk"
    assert workers(box) == {}, "it crawls without one"
    story.operator.run("replace", others[0].name, ends="refused")
    story.operator.run("replace", box.name)
    story.goes_on()
    story.at_full_strength(box)
    assert [workers(each) for each in others] == before, "the others' processes are not those they were"
    late = [each for each in story.of(domain) if each.t_ms > excluded_ms + 2_000]
    assert not late, f"{len(late)} requests to {domain}, which is excluded"
    return "its shard is begun anew, without what is excluded; the others run on by the same processes"


def _other_numbers(story: Story) -> str:
    """Down to a few processes, and up again, by nothing but the inventory and ``up``."""
    for fetchers, parsers in ((3, 2), (FETCHERS, PARSERS)):
        story.operator.tell(milliarde_fetchers=fetchers, milliarde_parsers=parsers)
        story.operator.run("up")
        for box in story.fleet:
            until(
                lambda box=box, many=fetchers + parsers: len(workers(box)) == many,  # type: ignore[misc]
                f"{box.name} runs {fetchers} and {parsers}",
            )
        story.goes_on()
    return f"3 and 2, then {FETCHERS} and {PARSERS} again"


def _nothing_lost(story: Story) -> str:
    story.operator.run("drain")
    for box in story.fleet:
        said = box.ssh("milliarde check").stdout
        assert "sound" in said, said
    totals = story.operator.status()["totals"]
    assert (totals["lost"], totals["under_way"]) == (0, 0), totals
    return f"{totals['pages']} pages, none lost, none under way"


def _no_gap(story: Story) -> str:
    requests = story.log.requests()
    broken = list(proof.broken_gaps(requests, DELAY_S, HOP_GAP_S))
    assert not broken, "; ".join(broken[:5])
    return f"{len(requests):,} requests"


STEPS: tuple[tuple[str, Callable[[Story], str]], ...] = (
    ("from bare machines to a crawl", _up),
    ("a deploy ends at the first node that does not run, and no other is touched", _a_failed_deploy),
    ("the next deploy mends it, and goes from node to node", _a_deploy_that_mends),
    ("a restart goes from node to node, and the crawl is where it was", _a_restart),
    ("a disk is lost: that shard is begun anew, and no other node notices", _a_lost_disk),
    ("fewer processes, and more: the machines follow", _other_numbers),
    ("a drain; every URL is in exactly one place", _nothing_lost),
    ("no gap was broken, by the web's own log", _no_gap),
)
