"""``milliarde-fleet plan``: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from deploy import figures, outlook, plan_words, prices, rented
from deploy.errors import ExitCode, InputError
from deploy.figures import Figures
from deploy.inventory import find
from deploy.plan import MOST_NODES, Archive, Plan, Wish, plan, with_nodes
from deploy.plan_words import Rates
from deploy.prices import Instance
from deploy.values import number, whole

DEFAULT_INSTANCE = "i7i.4xlarge"
TABLE_PAGES = (1e7, 1e8, 1e9, 1e10)
TABLE_ARCHIVES = (Archive.FULL, Archive.COLLECTED)
_DEFAULTS = Wish()
STATUS = ""
"""What ``--now`` without a file stands for: ask the fleet."""


def arguments(command: argparse.ArgumentParser) -> None:
    """All options, each with what it is when it is not given."""
    share = number(0, 0.95, "share")
    add = command.add_argument
    add(
        "--pages", type=number(1, 1e13, "number of pages"), default=_DEFAULTS.pages, help="to be stored (1e9)"
    )
    add("--hours", type=number(0.01, 1e5, "number of hours"), help="in which (24; with --nodes: as it takes)")
    add(
        "--nodes", type=whole(MOST_NODES, "number of nodes"), help="so many, instead of as many as are needed"
    )
    add(
        "--domains",
        type=number(1, 1e9, "number of domains"),
        default=_DEFAULTS.domains,
        help="live ones (1e6)",
    )
    add("--delay", type=number(0, 86_400, "delay in seconds"), default=_DEFAULTS.delay_s, help="seconds (70)")
    add(
        "--page-bytes",
        type=number(1, 1e9, "number of bytes"),
        default=_DEFAULTS.page_bytes,
        help="a page in the archive takes (31,000)",
    )
    add(
        "--archive",
        type=Archive,
        choices=list(Archive),
        default=_DEFAULTS.archive,
        help="kept on the nodes: all of it; what is not collected and freed yet; what is not parsed yet",
    )
    for name, default, words in (
        ("error", _DEFAULTS.error, "that fail"),
        ("redirect", _DEFAULTS.redirect, "that are redirected"),
        ("retry", _DEFAULTS.retry, "that are second tries"),
    ):
        add(f"--{name}-share", type=share, default=default, help=f"of requests, those {words} ({default:g})")
    add(
        "--busy-share",
        type=number(0.01, 1, "share"),
        default=_DEFAULTS.busy,
        help=f"of live domains, those that have work and keep to the delay ({_DEFAULTS.busy:g})",
    )
    add(
        "--origins",
        type=number(0, 1000, "number of origins"),
        default=_DEFAULTS.origins,
        help=f"with a robots.txt, per domain ({_DEFAULTS.origins:g})",
    )
    add(
        "--queue-cap",
        type=whole(10**7, "number of URLs"),
        help="most URLs waiting for a domain (2,000, or what its pages need)",
    )
    add(
        "--utilisation",
        type=number(0.05, 1, "share"),
        default=_DEFAULTS.utilisation,
        help=f"of CPU and network ({_DEFAULTS.utilisation:g})",
    )
    add(
        "--core-share",
        type=number(0.05, 2, "share"),
        help="what a vCPU does of an idle core (0.65 where a core is two; 1 if --bench had all busy)",
    )
    add("--instance", default=DEFAULT_INSTANCE, metavar="TYPE", help=f"of machine ({DEFAULT_INSTANCE})")
    add("--prices", type=Path, metavar="FILE", help="another price list, in TOML as deploy/prices.toml")
    add("--spot", action="store_true", help="its spot price")
    add(
        "--price",
        type=number(1e-6, 1e6, "price"),
        metavar="USD",
        help="an hour of a node, whatever a list says",
    )
    add(
        "--bench",
        default="measured",
        metavar="FILE",
        help="figures: a bench.json, or measured (the default), goals, reference",
    )
    add("--json", action="store_true", help="for programs")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--table", action="store_true", help="10⁷ to 10¹⁰ pages in Markdown")
    what.add_argument(
        "--now",
        nargs="?",
        const=STATUS,
        metavar="FILE",
        help="of a crawl that is going on: ask the fleet, or read what 'status --json' said (- is stdin)",
    )
    add(
        "--elapsed",
        type=number(0, 1e5, "number of hours"),
        metavar="HOURS",
        help="--now: since the machines were rented",
    )


def run(args: argparse.Namespace) -> ExitCode:
    """Plan, and print it."""
    wish, measured = _wish(args), figures.read(args.bench)
    listed = prices.read(args.prices) if args.prices else prices.read()
    instance, rates = listed.instance(args.instance), _rates(args, listed)
    if args.now is not None:
        return _now(args, wish, measured, instance, rates)
    if args.table:
        return _table(args, wish, measured, instance, rates)
    found = plan(wish, measured, instance, args.instance)
    beside = _beside(found, measured, instance)
    if args.json:
        _write(json.dumps(plan_words.as_json(found, measured, rates, beside)))
    else:
        for label, text in plan_words.lines(found, measured, rates, beside):
            _write(f"{label:<11} {text}")
    return ExitCode.OK


def _wish(args: argparse.Namespace) -> Wish:
    if args.error_share + args.redirect_share + args.retry_share > 0.95:
        raise InputError(
            "errors, redirects and retries together leave less than one request in twenty a page"
        )
    hours = args.hours
    if hours is None and args.nodes is None:
        hours = _DEFAULTS.hours
    return Wish(
        pages=args.pages,
        hours=hours,
        nodes=args.nodes,
        domains=args.domains,
        delay_s=args.delay,
        page_bytes=args.page_bytes,
        archive=args.archive,
        error=args.error_share,
        redirect=args.redirect_share,
        retry=args.retry_share,
        busy=args.busy_share,
        origins=args.origins,
        utilisation=args.utilisation,
        core_share=args.core_share,
        queue_cap=args.queue_cap,
    )


def _rates(args: argparse.Namespace, listed: prices.PriceList) -> Rates:
    if args.price is not None:
        return Rates(args.price, "as given", listed)
    kind = "spot" if args.spot else "on demand"
    hourly = listed.hourly(args.instance, spot=args.spot)
    return Rates(hourly, f"{kind}, {listed.region}, {listed.date}", listed)


def _beside(found: Plan, measured: Figures, instance: Instance) -> list[Plan]:
    """One node less, and one more."""
    return [
        with_nodes(replace(found.wish, nodes=nodes), measured, instance, found.instance, nodes)
        for nodes in (found.nodes - 1, found.nodes + 1)
        if 1 <= nodes <= MOST_NODES
    ]


def _table(
    args: argparse.Namespace, wish: Wish, measured: Figures, instance: Instance, rates: Rates
) -> ExitCode:
    plans = [
        plan(replace(wish, pages=pages, archive=archive), measured, instance, args.instance)
        for pages in TABLE_PAGES
        for archive in TABLE_ARCHIVES
    ]
    if args.json:
        _write(json.dumps([plan_words.as_json(each, measured, rates, []) for each in plans]))
    else:
        _write("\n".join(plan_words.table((each, rates) for each in plans)))
    return ExitCode.OK


def _now(
    args: argparse.Namespace, wish: Wish, measured: Figures, instance: Instance, rates: Rates
) -> ExitCode:
    seen = outlook.outlook(
        outlook.read(_status(args)), wish, measured, instance, rates.hourly, hours_so_far=_elapsed(args)
    )
    if args.json:
        told: dict[str, Any] = asdict(seen)
        _write(json.dumps(told | {"hours": seen.hours, "usd": seen.usd, "disk_holds": seen.disk_holds}))
    else:
        for label, text in outlook.lines(seen, wish, rates):
            _write(f"{label:<11} {text}")
    return ExitCode.OK


def _elapsed(args: argparse.Namespace) -> float | None:
    """Hours since the machines are paid for, where that was said or they were rented by us."""
    if args.elapsed is None and args.now == STATUS:
        found = rented.read(find(args.inventory, tuple(args.limit)).folder)
        return found.hours(time.time()) if found else None
    told: float | None = args.elapsed
    return told


def _status(args: argparse.Namespace) -> bytes:
    if args.now == STATUS:
        from deploy import status  # asks through Ansible, which planning has no need of

        rows, _ = status.look(find(args.inventory, tuple(args.limit)))
        return json.dumps({"nodes": {row.node: asdict(row) for row in rows}}).encode()
    if args.now == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(args.now).read_bytes()
    except OSError as error:
        raise InputError(f"{args.now} can't be read: {error.strerror}") from None


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
