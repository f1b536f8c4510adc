"""``milliarde-fleet``: the operator's command over a fleet of nodes. Arguments in, exit codes out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deploy import cloud_commands, domain_commands, plan_command
from deploy.errors import ExitCode, FleetError
from deploy.inventory import VARIABLE, Fleet, find
from deploy.plan import MOST_NODES
from deploy.values import duration, hosts, number, version, whole

_WATCH_S = 5.0
_FOLLOW_S = 300.0


_HOW_MANY = whole(10**9, "whole number above zero")
_SECONDS = number(1, 86_400, "number of seconds")


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="milliarde-fleet",
        description="Operate a fleet of Milliarde nodes, through Ansible.",
        epilog="Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode),
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, help_: str, run: Callable[[argparse.Namespace], int], *, fleet: bool = True) -> Any:
        command = commands.add_parser(name, help=help_, description=help_)
        command.set_defaults(run=run)
        if fleet:
            command.add_argument(
                "-i", "--inventory", type=Path, metavar="FILE", help=f"which fleet; default: ${VARIABLE}"
            )
            command.add_argument(
                "--limit",
                type=hosts,
                action="extend",
                default=[],
                metavar="HOST,...",
                help="only these nodes",
            )
        return command

    _add_life(add)
    _add_crawl(add)
    domain_commands.arguments(add)
    cloud_commands.arguments(add)
    command = add("balance", "how a list of domains falls on the nodes", _balance, fleet=False)
    command.add_argument("list", type=Path, metavar="LIST", help="plain, rank,domain CSV, or .gz of either")
    command.add_argument("--nodes", type=whole(MOST_NODES, "number of nodes"), default=12)
    command.add_argument("--json", action="store_true")
    plan_command.arguments(
        add("plan", "how many nodes, how long, what cost, and what binds", plan_command.run)
    )
    return top


Add = Callable[..., Any]


def _add_life(add: Add) -> None:
    command = add("up", "from bare hosts to nodes that crawl; again: to what the inventory says", _up)
    command.add_argument(
        "--list", type=Path, metavar="FILE", help="the domains; default: as the inventory says"
    )
    command.add_argument(
        "--version", type=version, metavar="V", help="which release; default: the last built"
    )
    command.add_argument("--check", action="store_true", help="only say what would change")
    command = add("deploy", "a release, settings, lists: one node at a time, until one fails", _deploy)
    command.add_argument(
        "--version", type=version, metavar="V", help="which release; default: the last built"
    )
    command.add_argument("--check", action="store_true", help="only say what would change")
    add("restart", "Redis and all processes anew, one node at a time", _restart)
    command = add("replace", "begin the shard of a node anew whose disk was lost", _replace)
    command.add_argument("host", metavar="HOST")
    command.add_argument(
        "--version", type=version, metavar="V", help="which release; default: the last built"
    )
    command = add("collect", "bring WARC files, logs and index; what was broken off goes on", _collect)
    command.add_argument("into", type=Path, metavar="DIR", help="gets a folder for each node")
    when = command.add_mutually_exclusive_group()
    when.add_argument("--final", action="store_true", help="first drain the nodes and stop what writes")
    when.add_argument(
        "--follow",
        type=_SECONDS,
        nargs="?",
        const=_FOLLOW_S,
        metavar="SECONDS",
        help=f"with --free, again and again ({_FOLLOW_S:.0f}) while they crawl",
    )
    command.add_argument("--free", action="store_true", help="then remove from the nodes what is here, whole")
    command = add("down", "stop nodes for good; refused while files were not collected", _down)
    command.add_argument("--without-collect", action="store_true", help="nobody wants what is not collected")
    command.add_argument("--yes", action="store_true", help="ask nothing")


def _add_crawl(add: Add) -> None:
    command = add("seed", "give all nodes a further list; each keeps its own", _seed)
    command.add_argument("file", type=Path, metavar="FILE", help="plain, rank,domain CSV, or .gz of either")
    command = add("status", "how all nodes stand, in one table", _status)
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument(
        "--watch", type=_SECONDS, nargs="?", const=_WATCH_S, metavar="SECONDS", help="again and again (5)"
    )
    command = add("pause", "hand out no more URLs anywhere until 'resume'", _pause)
    command.add_argument("--reason", default="", help="shown by status")
    add("resume", "go on after pause or drain", _resume)
    command = add("drain", "pause, and wait until nothing is under way anywhere", _drain)
    command.add_argument("--wait", type=duration, default="10m", metavar="TIME", help="default 10m")
    add("check", "verify on all nodes that nothing is lost and ready means workable", _check)
    command = add("logs", "the last lines of all nodes' logs, in the order of their time", _logs)
    command.add_argument("-n", type=_HOW_MANY, default=50, dest="most", help="lines of each node (50)")
    command.add_argument("--unit", choices=("fetcher", "parser", "watch", "redis"), default="")
    command.add_argument("--since", default="", metavar="TIME", help="as journalctl's: '10 min ago'")


# -- commands; what they do is in modules of their own, imported when asked for


def _fleet(args: argparse.Namespace) -> Fleet:
    return find(args.inventory, tuple(args.limit))


def _up(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.up(_fleet(args), domains=args.list, version=args.version, check=args.check)


def _deploy(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.deploy(_fleet(args), version=args.version, check=args.check)


def _restart(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.restart(_fleet(args))


def _replace(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.replace(_fleet(args), args.host, version=args.version)


def _collect(args: argparse.Namespace) -> int:
    from deploy import collect, follow

    if args.follow is not None:
        return follow.follow(_fleet(args), args.into, every_s=args.follow)
    return collect.collect(_fleet(args), args.into, final=args.final, free=args.free).code


def _down(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.down(_fleet(args), without_collect=args.without_collect, yes=args.yes)


def _seed(args: argparse.Namespace) -> int:
    from deploy import lifecycle

    return lifecycle.seed(_fleet(args), args.file)


def _status(args: argparse.Namespace) -> int:
    from deploy import status

    return status.status(_fleet(args), as_json=args.json, watch_s=args.watch)


def _pause(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.simple(_fleet(args), ["pause", *(["--reason", args.reason] if args.reason else [])])


def _resume(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.simple(_fleet(args), ["resume"])


def _drain(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.drain(_fleet(args), args.wait)


def _check(args: argparse.Namespace) -> int:
    from deploy import nodes

    return nodes.simple(_fleet(args), ["check"])


def _logs(args: argparse.Namespace) -> int:
    from deploy import looks

    return looks.logs(_fleet(args), most=args.most, unit=args.unit, since=args.since)


def _balance(args: argparse.Namespace) -> int:
    from deploy.balance import balance

    found = balance(args.list, args.nodes)
    if found.junk_lines:
        _say(f"{found.junk_lines:,} lines can't be used and were passed over")
    if args.json:
        print(json.dumps(asdict(found) | {"worst_to_mean": found.worst_to_mean}))
        return ExitCode.OK
    print(f"{found.domains:,} domains on {len(found.per_node)} nodes, {found.mean:,.0f} each on average")
    for node, count in enumerate(found.per_node):
        print(f"  node {node:<3} {count:>10,}  {count / found.mean - 1:+.1%}")
    print(f"the fullest node has {found.worst_to_mean:.3f} times the mean")
    return ExitCode.OK


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code. Expected errors are one sentence on stderr."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except FleetError as error:
        _say(f"milliarde-fleet {args.command}: {error}")
        return int(error.exit_code)
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "deploy", "node"):
            raise
        _say(
            f"milliarde-fleet {args.command}: the library {library} is missing or broken ({error}): "
            "scripts/setup --fleet installs it"
        )
        return int(ExitCode.NOT_INSTALLED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)
