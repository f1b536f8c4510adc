"""What may stand on the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from node import __version__
from node.cli import commands, copies
from node.errors import ExitCode

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(text: str) -> float:
    """``90``, ``90s``, ``15m``, ``2h``, ``1d`` -> seconds."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m, 2h or 1d")
    return float(found[1]) * _UNITS[found[2]]


def _count(text: str) -> int:
    """A whole number above zero; ``1e6`` and ``1_000`` are fine."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        value = 0.0
    if not (value >= 1 and value == int(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above zero")
    return int(value)


def _change(text: str) -> tuple[str, object]:
    """``section.key=value``, the value in TOML (a bare word is taken as text)."""
    import tomllib

    name, equals, value = text.partition("=")
    if not equals or name.count(".") != 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write section.key=value")
    try:
        return name, tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return name, value


def parser() -> argparse.ArgumentParser:
    """All commands and their arguments; ``run`` of what it parses is the command."""
    top = argparse.ArgumentParser(
        prog="milliarde",
        description="A polite web crawler. 'milliarde crawl URL' crawls from here; the other commands "
        "run and operate the parts of a node.",
        epilog="Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode),
    )
    top.add_argument("--version", action="version", version=f"milliarde {__version__}")
    known = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, help_: str, run: Callable[[argparse.Namespace], int], *, node: bool = True) -> Any:
        command = known.add_parser(name, help=help_, description=help_)
        command.set_defaults(run=run)
        if node:
            command.add_argument(
                "--config", type=Path, metavar="FILE", help="the node's settings (node.toml)"
            )
        return command

    _add_crawl(
        add("crawl", "crawl from this machine: a whole node under one command", commands.crawl, node=False)
    )
    for role, run in (("fetcher", commands.fetcher), ("parser", commands.parser_process)):
        command = add(role, f"run one {role}, as systemd does", run)
        command.add_argument("number", type=_count, help=f"which {role} of this node, from 1")
    add("watch", "run the process that serves metrics", commands.watch)
    command = add("seed", "add seeds from lists (plain, rank,domain CSV, or .gz)", commands.seed)
    command.add_argument("files", type=Path, nargs="+", metavar="FILE")
    command = add("status", "how the crawl stands", commands.status)
    command.add_argument("--json", action="store_true", help="everything, for programs")
    command = add("check", "verify that nothing is lost and ready means workable", commands.check)
    command.add_argument("--every-url", action="store_true", help="look at each URL, too: a second a million")
    command.add_argument("--repair", action="store_true", help="put right what is broken; the node must rest")
    command.add_argument("--json", action="store_true")
    command = add("pause", "hand out no more URLs until 'resume'", commands.pause)
    command.add_argument("--reason", default="", help="shown by status")
    add("resume", "go on after pause or drain", commands.resume)
    command = add("drain", "pause, and wait until what is under way has ended", commands.drain)
    command.add_argument("--wait", type=_duration, default=600.0, metavar="TIME", help="default 10m")
    command = add("snapshot", "copy the crawl as it is now, running or not, for 'restore'", copies.snapshot)
    command.description = copies.SNAPSHOT
    command.add_argument("folder", type=Path, metavar="DIR", help="made by it, or empty")
    command.add_argument("--archive", action="store_true", help="all WARC files, too")
    command = add("restore", "make a node of a snapshot; it goes on where that was taken", copies.restore)
    command.description = copies.RESTORE
    command.add_argument("folder", type=Path, metavar="SNAPSHOT", help="a folder that 'snapshot' made")
    command.add_argument("--out", type=Path, metavar="DIR", help="a folder for 'milliarde crawl --out DIR'")
    command = add(
        "key", "make the key that requests are signed with, and print what publishes it", commands.key
    )
    command.add_argument("files", type=Path, nargs="*", metavar="FILE", help="default: web_bot_auth.key_file")
    command.add_argument(
        "--headers", action="store_true", help="the headers to serve that with (they hold for 90 days)"
    )
    command = add("exclude", "never visit these hosts or domains, nor anything under them", commands.exclude)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument(
        "--list", type=Path, metavar="FILE", help="a list of maybe millions of them, in place of the last one"
    )
    command.add_argument("--reason", default="", help="kept in the audit file")
    command = add("include", "lift exclusions and bring back what was taken out", commands.include)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument("--list", action="store_true", help="lift the list that 'exclude --list' made")
    command = add("trim", "take the worst URLs out of domains' queues, into files", commands.trim)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument("--over", type=_count, metavar="N", help="all domains with more than N URLs waiting")
    command.add_argument("--largest", type=_count, metavar="K", help="the K domains with the longest queues")
    command.add_argument(
        "--keep", type=int, metavar="N", help="how many of the best stay; with --over: its N"
    )
    command.add_argument("--dry-run", action="store_true", help="only count what would go")
    command = add("top", "the domains with the longest queues", commands.top)
    command.add_argument("-n", type=_count, default=20, dest="most")
    command.add_argument("--json", action="store_true")
    command = add("inspect", "all that is known of one domain", commands.inspect)
    command.add_argument("name", metavar="DOMAIN")
    command.add_argument("--json", action="store_true")
    command = add("dead", "pages that parsers gave up: list them, or have them parsed again", commands.dead)
    command.add_argument("action", nargs="?", choices=("list", "requeue"), default="list")
    command.add_argument("names", nargs="*", metavar="DOMAIN", help="only those of these domains")
    command.add_argument("--requeue", action="store_true", help="the same as the word")
    command.add_argument("-n", type=_count, default=100, dest="most", help="list at most so many")
    command.add_argument("--json", action="store_true")
    command = add("verify", "are the files of a crawl whole? reads every record", commands.verify, node=False)
    command.add_argument("paths", type=Path, nargs="+", metavar="DIR", help="or single WARC files")
    command.add_argument("--jobs", type=_count, metavar="N", help="processes; default: one for each core")
    command.add_argument("--json", action="store_true")
    command = add("index", "make DIR/index.cdxj anew from DIR/log and DIR/warc", commands.index, node=False)
    command.add_argument("folder", type=Path, metavar="DIR")
    command.add_argument(
        "--only-here", action="store_true", help="leave out records of files that are not in DIR/warc"
    )
    command = add("explain", "why a URL is or isn't crawled, as far as the rules know", commands.explain)
    command.add_argument("url", nargs="?", metavar="URL")
    command.add_argument("--base", metavar="URL", help="what it is relative to")
    command.add_argument("--robots", type=Path, metavar="FILE", help="the robots.txt of its origin")
    command.add_argument("--agent", metavar="TOKEN", help="whom robots.txt is read for; default: us")
    command.add_argument("--depth", type=_count, metavar="N", help="how many links from a seed it is")
    command.add_argument("--json", action="store_true")
    command.add_argument("--stdin", action="store_true", help="a JSON question a line, a JSON answer a line")
    command = add("links", "what a parser reads from a page, and why any link is left out", commands.links)
    command.add_argument("file", type=Path, metavar="FILE", help="the page; - is stdin")
    command.add_argument("--base", required=True, metavar="URL", help="its address")
    command.add_argument("--content-type", metavar="TYPE", help="the Content-Type it came with")
    command.add_argument("--json", action="store_true")
    return top


def _add_crawl(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("urls", nargs="*", metavar="URL", help="where to begin: URLs or domains")
    add("--seeds", type=Path, action="append", default=[], metavar="FILE", help="a list of them")
    add(
        "--exclude-list",
        type=Path,
        metavar="FILE",
        help="hosts and domains never to be visited, maybe millions",
    )
    add("--out", type=Path, default=Path("crawl"), metavar="DIR", help="default: crawl")
    add("--pages", type=_count, metavar="N", help="stop after N stored pages")
    add("--for", type=_duration, dest="seconds", metavar="TIME", help="stop after 90s, 15m, 2h ...")
    add("--delay", type=_duration, metavar="TIME", help="between visits to one domain; default 5s")
    add("--fetchers", type=_count, metavar="N", help="default: by the number of cores")
    add("--parsers", type=_count, metavar="N")
    add("--idle", type=_duration, metavar="TIME", help="end when no domain could be visited this long")
    add("--scope", choices=("seeds", "list", "open"), help="which domains; default: those of the seeds")
    add("--max-depth", type=int, metavar="N", help="follow links this far from a seed")
    add("--contact", metavar="URL", help="where site owners reach you; goes into the User-Agent")
    add("--settings", type=Path, metavar="FILE", help="a settings file to start from")
    add("--set", type=_change, action="append", default=[], metavar="SECTION.KEY=VALUE", dest="changes")
    add("--ca-file", type=Path, metavar="FILE", help="further trusted roots (PEM)")
    add(
        "--connect-to",
        action="append",
        default=[],
        metavar="HOST1:PORT1:HOST2:PORT2",
        help="as curl's: connections to the first go to the second",
    )
