"""``scripts/bench``: measure, print the tables, write bench.json."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from node.errors import ExitCode, MilliardeError
from tests.bench import (
    crawls,
    figures,
    flames,
    frontier,
    growth_picture,
    in_flight,
    machine,
    nodes,
    report,
    scale,
    scale_figures,
    stages,
)
from tests.bench.crawls import REPO, Run, Side
from tests.bench.figures import Figure
from tests.bench.per_run import BASELINE, Raw, per_cpu_second
from tests.bench.plan import (
    DEFAULT,
    FULL,
    FULL_SCALE,
    IN_FLIGHT,
    PER_DOMAIN,
    QUICK,
    SCALE_ROUNDS,
    SEED,
    Plan,
)
from tests.bench.processes import RunError
from tests.bench.served import Web
from tests.web.nginx import find_nginx

_BEGUN = time.monotonic()
DOCUMENT = REPO / "docs" / "performance.md"
IMAGES = REPO / "docs" / "images"
NOTES = (
    "CPU time is the kernel's, of all processes of a side together, from their start to their end (wait4); "
    "'without start' takes off what a crawl of a single page costs.",
    "Ours: milliarde crawl with its default processes; certificates verified, TLS sessions resumed, "
    "robots.txt, frontier with seen filters and append-only file, WARC with fdatasync, fetch log, index, "
    "metrics.",
    "Scrapy: one process, set up by its own guide to broad crawls, robots.txt obeyed. It does not verify "
    "certificates (its default), resumes no TLS session, and stores nothing. In the fetch rows it is given "
    "all URLs beforehand: no link is followed, deduplicated or scheduled. The crawling row does that, in "
    "memory.",
    "The server's CPU time counts for nobody.",
)
_SCALE = (
    "Calls against frontiers of several sizes. ms a call, medians: CPU time of Redis / time of the script by "
    "Redis's statistics / time until the caller has its answer; last, Redis's CPU time for a whole page:"
)
_BESIDE = (
    "The same frontiers: calls that a second of Redis's CPU time is enough for; how long domains waited for "
    "their visit once they were due, by the driven clock, with as many visits asked for as are due; and a "
    "rewrite of the append-only file with calls going on:"
)
_GROWTH = (
    "![What a page costs Redis, by how much is queued; bars bound the quickest and the slowest tenth]"
    "(images/growth.svg)"
)
_PAGES_HELP = (
    "a folder of real pages (.html, .htm, .xhtml, in any folders), to be taken instead of made-up ones"
)
_WORK_HELP = "where pages and crawls are kept meanwhile; should be a real disk"


def main(argv: list[str] | None = None) -> int:
    """Answers an exit code; what goes wrong is said in a sentence on stderr."""
    args = _arguments(argv)
    try:
        args.work.mkdir(parents=True, exist_ok=True)
        if args.scale:
            _measure_scale(args)
        elif args.in_flight:
            _measure_in_flight(args)
        elif args.flames:
            _need(scrapy=False)
            for picture in flames.draw(Web(args.work, DEFAULT, args.pages), args.work, IMAGES, _say):
                _say(f"{picture} is drawn")
        elif args.nodes:
            _need(scrapy=False)
            _measure_nodes(args)
        else:
            _need()
            _measure(QUICK if args.quick else FULL if args.full else DEFAULT, args)
    except (RunError, MilliardeError, FileNotFoundError, FileExistsError, RuntimeError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return int(getattr(error, "exit_code", ExitCode.CHECK_FAILED))
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.OK)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure us, and Scrapy beside us.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="under a minute on two quiet cores")
    size.add_argument(
        "--full",
        action="store_true",
        help="five rounds of 5,040 pages, 10 million URLs in Redis: under an hour",
    )
    size.add_argument("--scale", action="store_true", help="only calls to Redis, with 10 million URLs in it")
    size.add_argument("--in-flight", action="store_true", help="only one fetcher with 6,500 visits under way")
    size.add_argument("--nodes", action="store_true", help="only several nodes beside each other")
    size.add_argument("--flames", action="store_true", help="only flame graphs of a fetcher and a parser")
    parser.add_argument("--pages", type=Path, metavar="DIR", help=_PAGES_HELP)
    parser.add_argument("--out", type=Path, default=REPO / "bench.json", metavar="FILE")
    parser.add_argument("--work", type=Path, default=REPO / "bench-work", metavar="DIR", help=_WORK_HELP)
    parser.add_argument("--docs", action="store_true", help="also put the numbers into docs/performance.md")
    return parser.parse_args(argv)


class MissingError(MilliardeError):
    """Something that the benchmark stands on is not installed."""

    exit_code = ExitCode.BAD_SETTINGS


def missing(nginx: Path | None, *, scrapy: bool) -> str | None:
    """What has to be installed first, in a sentence; None where all is there."""
    if nginx is None:
        return (
            "there is no nginx, which serves the pages: scripts/bench unpacks one where it can; else install "
            "it (sudo apt-get install nginx-light)"
        )
    return None if scrapy else "there is no Scrapy to compare with: scripts/setup --bench installs it"


def _need(*, scrapy: bool = True) -> None:
    there = not scrapy or importlib.util.find_spec("scrapy") is not None
    lacking = missing(find_nginx(), scrapy=there)
    if lacking:
        raise MissingError(lacking)


def _measure(plan: Plan, args: argparse.Namespace) -> None:
    work: Path = args.work
    facts = machine.facts()
    _say(f"{plan.name}: {plan.pages:,} pages on {plan.domains} domains, {plan.rounds} round(s)")
    web = Web(work, plan, args.pages)
    starts = [each for _ in range(plan.rounds) for each in _starts(web, work)]
    runs = list(_runs(web, work, plan))
    _say("URLs in Redis: what they weigh")
    weights = frontier.weigh(work, plan)
    _say("calls against frontiers of several sizes")
    scaled = scale.measure(work, plan.scale, plan.scale_rounds, _say)
    _say("one stage at a time")
    raw = Raw(runs, starts, weights, stages.take(web, work, plan))
    rows, remarks = [*figures.figures(raw), *scale_figures.figures(scaled)], figures.remarks(raw)
    versions = machine.versions(REPO)
    facts["line"] = _line(plan, web, facts, versions)
    text = report.document(rows, raw, remarks, facts, _scale_words(scaled))
    print(text)
    report.write_json(
        args.out,
        {
            **figures.flat(rows),
            "plan": plan,
            "seed": SEED,
            "in_flight": IN_FLIGHT,
            "per_domain": PER_DOMAIN,
            "chains": web.chains(),
            "figures": rows,
            "remarks": remarks,
            "notes": NOTES,
            "stages": raw.staged,
            "weights": weights,
            "scale": scaled,
            "starts": starts,
            "runs": runs,
            "machine": facts,
            "versions": versions,
        },
    )
    if args.docs:
        report.into_document(DOCUMENT, text)
    _say(f"{args.out} written after {time.monotonic() - _BEGUN:.0f} s")


def _scale_words(scaled: Sequence[scale.Point]) -> tuple[str, ...]:
    return _SCALE, scale_figures.scale_table(scaled), _BESIDE, scale_figures.beside_table(scaled)


def _measure_scale(args: argparse.Namespace) -> None:
    facts = machine.facts()
    scaled = scale.measure(args.work, FULL_SCALE, SCALE_ROUNDS, _say)
    more = (_GROWTH, *_scale_words(scaled))
    _tell(args, facts, scale_figures.figures(scaled), {"scale": scaled}, report.SCALE, more)
    if args.docs:
        growth_picture.draw(scaled, IMAGES / "growth.svg")


def _measure_in_flight(args: argparse.Namespace) -> None:
    facts = machine.facts()
    looks = in_flight.measure(args.work, _say)
    _tell(args, facts, in_flight.figures(looks), {"looks": looks}, report.IN_FLIGHT)


def _measure_nodes(args: argparse.Namespace) -> None:
    facts = machine.facts()
    ran = nodes.measure(Web(args.work, DEFAULT, args.pages), args.work, _say)
    _tell(args, facts, nodes.figures(ran), {"nodes": ran}, report.NODES, (nodes.nodes_table(ran),))


def _tell(
    args: argparse.Namespace,
    facts: dict[str, Any],
    rows: list[Figure],
    measured: dict[str, Any],
    place: tuple[str, str],
    more: Sequence[str] = (),
) -> None:
    """Print one measurement by itself, write it to bench.json and where it belongs in the document."""
    versions = machine.versions(REPO)
    line = f"{time.strftime('%Y-%m-%d')}, commit {versions['commit']}: {_where(facts, versions)}."
    text = "\n\n".join([line, report.figures_table(rows), *more])
    print(text)
    report.write_json(args.out, {**figures.flat(rows), **measured, "machine": facts, "versions": versions})
    if args.docs:
        report.into_document(DOCUMENT, text, place)
    _say(f"{args.out} written after {time.monotonic() - _BEGUN:.0f} s")


def _starts(web: Web, work: Path) -> Iterator[Run]:
    """What a start costs, either side."""
    yield _told(crawls.ours(web, work, start_only=True))
    yield _told(crawls.scrapy(web, work, BASELINE, start_only=True))


def _runs(web: Web, work: Path, plan: Plan) -> Iterator[Run]:
    """Ours, Scrapy, ours, Scrapy ...: each run of Scrapy has one of ours before it, and most one after it."""
    sides: list[Side] = ["scrapy-lxml", "scrapy-selectolax"] * plan.rounds
    if plan.like_for_like and web.max_depth is None:
        sides.append("scrapy-lxml-crawl")
    for side in sides:
        yield _told(crawls.ours(web, work))
        yield _told(crawls.scrapy(web, work, side))
    if plan.rounds > 1:
        yield _told(crawls.ours(web, work))


def _told(run: Run) -> Run:
    what = "start alone" if run.start_only else f"{run.pages:,} pages"
    _say(
        f"{run.side}, {what}: {run.usage.cpu_s:.1f} CPU-seconds in {run.usage.wall_s:.1f} s"
        + ("" if run.start_only else f", {per_cpu_second(run):.0f} pages per CPU-second")
    )
    return run


def _line(plan: Plan, web: Web, facts: dict[str, Any], versions: dict[str, str]) -> str:
    """Where and when, in one sentence."""
    return (
        f"{time.strftime('%Y-%m-%d')}, commit {versions['commit']}, plan {plan.name} ({web.tree.pages:,} "
        f"{'pages' if web.max_depth is None else 'real pages'}, "
        f"{plan.rounds} round{'s' if plan.rounds > 1 else ''}): {_where(facts, versions)}, "
        f"{versions['openssl'].rsplit(' ', 3)[0]}, Scrapy {versions['Scrapy']}."
    )


def _where(facts: dict[str, Any], versions: dict[str, str]) -> str:
    return (
        f"{facts['cpu']}, {facts['usable_cores']} cores, {facts['system']}, Python {versions['python']}, "
        f"{versions['redis-server'].partition(' sha')[0]}"
    )


def _say(text: str) -> None:
    print(f"bench {time.monotonic() - _BEGUN:5.0f} s: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
