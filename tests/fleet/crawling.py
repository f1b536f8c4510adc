"""What the steps of the fleet test share: three machines, a web larger than they can crawl, an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from node.rules.shard import node_of
from tests.fleet import proof
from tests.fleet.box import Box
from tests.fleet.boxes import Fleet
from tests.fleet.network import inside
from tests.fleet.operator import Operator, Wheelhouse, trust, workers
from tests.fleet.steps import Steps
from tests.web.log import Entry, now_ms
from tests.web.running import MiniWeb
from tests.whole import manners
from tests.whole.crawl import until

BOXES = 3
DOMAINS = 24
DELAY_S = 1.0
HOP_GAP_S = 0.3
FETCHERS, PARSERS = 9, 6
DATA = "/srv/milliarde"
PATIENCE_S = 240.0
FIRST, SECOND = "0.1.0+first", "0.1.0+second"


@dataclass
class Story(Steps):
    """What the steps share."""

    fleet: Fleet
    log: proof.Tail
    operator: Operator
    wheels: Wheelhouse
    excluded: str = ""

    def goes_on(self, *boxes: Box) -> None:
        """Wait until each has sent a request that it had not sent before this was asked."""
        began_ms = now_ms()
        waited_for = list(boxes or self.fleet.boxes)

        def all_went_on() -> bool:
            return all(self.last_ms(box) > began_ms for box in waited_for)

        until(all_went_on, f"{waited_for} go on", within_s=PATIENCE_S, every_s=0.3)

    def last_ms(self, box: Box) -> float:
        """When the web heard from a box last."""
        return self.log.last_ms(box.address)

    def of(self, domain: str) -> list[Entry]:
        """The requests of a domain."""
        return [each for each in self.log.requests() if manners.domain_of(each.host or "") == domain]

    def at_full_strength(self, box: Box, *, without: frozenset[int] = frozenset()) -> None:
        """Wait until all its workers run, none of them one of those processes."""

        def strong() -> bool:
            found = workers(box)
            return len(found) == FETCHERS + PARSERS and without.isdisjoint(found.values())

        until(strong, f"all workers of {box.name} run", within_s=PATIENCE_S, every_s=0.5)

    def began_one_after_the_other(self) -> None:
        """By their systemds: the workers of a box were all there before any of the next box was started."""
        spans = []
        for box in self.fleet:
            self.at_full_strength(box)
            units = "'milliarde-fetcher@*' 'milliarde-parser@*'"
            told = box.ssh(f"systemctl show --property=ActiveEnterTimestampMonotonic --value {units}").stdout
            entered = [int(each) for each in told.split()]
            spans.append((min(entered), max(entered)))
        for before, after in pairwise(spans):
            assert before[1] < after[0], spans

    def owner(self, domain: str) -> Box:
        """The box whose shard a domain is in: they are numbered by the order of the inventory."""
        return self.fleet.boxes[node_of(domain, BOXES)]


@contextmanager
def begun(folder: Path) -> Iterator[Story]:
    """Three bare boxes, the web, the operator, and wheels of the first version."""
    with ExitStack() as stack:
        wheels = Wheelhouse(folder / "wheelhouse")
        stack.callback(wheels.end)
        wheels.begin(FIRST)
        fleet = stack.enter_context(Fleet(folder / "boxes", BOXES))
        web = stack.enter_context(
            MiniWeb(
                folder / "web",
                domains=DOMAINS,
                pages_per_domain=900,
                mean_bytes=4_000,
                ca="ec",
                address=fleet.network.address,
                inside=inside(fleet.control),
            )
        )
        fleet.each(trust, web.ca)
        settings = {
            "crawl": {"hop_gap_s": HOP_GAP_S, "max_delay_s": 4.0},
            "fetcher": {"deadline_s": 5.0},
            "archive": {"disk_reserve_bytes": 50_000_000},
            "dns": {"connect_to": web.connect_to},
        }
        operator = Operator(
            fleet,
            web,
            folder / "operator",
            wheels,
            milliarde_contact="https://us.test/bot",
            milliarde_delay_s=DELAY_S,
            milliarde_horizon_s=3600,
            milliarde_fetchers=FETCHERS,
            milliarde_parsers=PARSERS,
            milliarde_redis_maxmemory_mb=128,
            milliarde_settings=settings,
        )
        wheels.wait()
        yield Story(fleet, proof.Tail(web.log), operator, wheels)
