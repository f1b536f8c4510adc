"""The command line: arguments in, exit codes out. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from node import __version__, settings
from node.errors import ExitCode, InputError, MilliardeError, SettingsError
from node.settings import Settings

CONFIG_VARIABLE = "MILLIARDE_CONFIG"
CONFIG_PLACES = (Path("node.toml"), Path("crawl/node.toml"), Path("/etc/milliarde/node.toml"))
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


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="milliarde",
        description="A polite web crawler. 'milliarde crawl URL' crawls from here; the other commands "
        "run and operate the parts of a node.",
        epilog="Exit codes: " + ", ".join(f"{code.value} {code.name.lower()}" for code in ExitCode),
    )
    top.add_argument("--version", action="version", version=f"milliarde {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, help_: str, run: Callable[[argparse.Namespace], int], *, node: bool = True) -> Any:
        command = commands.add_parser(name, help=help_, description=help_)
        command.set_defaults(run=run)
        if node:
            command.add_argument(
                "--config", type=Path, metavar="FILE", help="the node's settings (node.toml)"
            )
        return command

    _add_crawl(add("crawl", "crawl from this machine: a whole node under one command", _crawl, node=False))
    for role, run in (("fetcher", _fetcher), ("parser", _parser_process)):
        command = add(role, f"run one {role}, as systemd does", run)
        command.add_argument("number", type=_count, help=f"which {role} of this node, from 1")
    add("watch", "run the process that serves metrics", _watch)
    command = add("seed", "add seeds from lists (plain, rank,domain CSV, or .gz)", _seed)
    command.add_argument("files", type=Path, nargs="+", metavar="FILE")
    command = add("status", "how the crawl stands", _status)
    command.add_argument("--json", action="store_true", help="everything, for programs")
    command = add("check", "verify that nothing is lost and ready means workable", _check)
    command.add_argument("--json", action="store_true")
    command = add("pause", "hand out no more URLs until 'resume'", _pause)
    command.add_argument("--reason", default="", help="shown by status")
    add("resume", "go on after pause or drain", _resume)
    command = add("drain", "pause, and wait until what is under way has ended", _drain)
    command.add_argument("--wait", type=_duration, default=600.0, metavar="TIME", help="default 10m")
    command = add("key", "make the key that requests are signed with, and print what publishes it", _key)
    command.add_argument("files", type=Path, nargs="*", metavar="FILE", help="default: web_bot_auth.key_file")
    command.add_argument(
        "--headers", action="store_true", help="the headers to serve that with (they hold for 90 days)"
    )
    command = add("exclude", "never visit these hosts or domains, nor anything under them", _exclude)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument(
        "--list", type=Path, metavar="FILE", help="a list of maybe millions of them, in place of the last one"
    )
    command.add_argument("--reason", default="", help="kept in the audit file")
    command = add("include", "lift exclusions and bring back what was taken out", _include)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument("--list", action="store_true", help="lift the list that 'exclude --list' made")
    command = add("trim", "take the worst URLs out of domains' queues, into files", _trim)
    command.add_argument("names", nargs="*", metavar="DOMAIN")
    command.add_argument("--over", type=_count, metavar="N", help="all domains with more than N URLs waiting")
    command.add_argument("--largest", type=_count, metavar="K", help="the K domains with the longest queues")
    command.add_argument(
        "--keep", type=int, metavar="N", help="how many of the best stay; with --over: its N"
    )
    command.add_argument("--dry-run", action="store_true", help="only count what would go")
    command = add("top", "the domains with the longest queues", _top)
    command.add_argument("-n", type=_count, default=20, dest="most")
    command.add_argument("--json", action="store_true")
    command = add("inspect", "all that is known of one domain", _inspect)
    command.add_argument("name", metavar="DOMAIN")
    command.add_argument("--json", action="store_true")
    command = add("verify", "are the files of a crawl whole? reads every record", _verify, node=False)
    command.add_argument("paths", type=Path, nargs="+", metavar="DIR", help="or single WARC files")
    command.add_argument("--jobs", type=_count, metavar="N", help="processes; default: one for each core")
    command.add_argument("--json", action="store_true")
    command = add("index", "make DIR/index.cdxj anew from DIR/log and DIR/warc", _index, node=False)
    command.add_argument("folder", type=Path, metavar="DIR")
    command = add("explain", "why a URL is or isn't crawled, as far as the rules know", _explain)
    command.add_argument("url", nargs="?", metavar="URL")
    command.add_argument("--base", metavar="URL", help="what it is relative to")
    command.add_argument("--robots", type=Path, metavar="FILE", help="the robots.txt of its origin")
    command.add_argument("--agent", metavar="TOKEN", help="whom robots.txt is read for; default: us")
    command.add_argument("--depth", type=_count, metavar="N", help="how many links from a seed it is")
    command.add_argument("--json", action="store_true")
    command.add_argument("--stdin", action="store_true", help="a JSON question a line, a JSON answer a line")
    command = add("links", "what a parser reads from a page, and why any link is left out", _links)
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


# -- commands; what they do is in node.work, imported when asked for


def _crawl(args: argparse.Namespace) -> int:
    from node.work import crawl

    changes: list[tuple[str, object]] = []
    for name, value in (
        ("crawl.pages", args.pages),
        ("crawl.seconds", args.seconds),
        ("crawl.delay_s", args.delay),
        ("crawl.scope", args.scope),
        ("crawl.max_depth", args.max_depth),
        ("identity.contact", args.contact),
        ("tls.ca_file", str(args.ca_file.resolve()) if args.ca_file else None),
        ("dns.connect_to", args.connect_to or None),
    ):
        if value is not None:
            changes.append((name, value))
    told = crawl.run(
        crawl.Plan(
            out=args.out,
            urls=tuple(args.urls),
            lists=tuple(args.seeds),
            changes=(*changes, *args.changes),
            fetchers=args.fetchers,
            parsers=args.parsers,
            idle_s=args.idle,
            settings_file=args.settings,
            exclude_list=args.exclude_list,
        )
    )
    return ExitCode.INTERRUPTED if told["reason"] == "interrupted" else ExitCode.OK


def _fetcher(args: argparse.Namespace) -> int:
    from node.work import fetcher

    fetcher.main(_settings(args), args.number)
    return ExitCode.OK


def _parser_process(args: argparse.Namespace) -> int:
    from node.work import parser

    parser.main(_settings(args), args.number)
    return ExitCode.OK


def _watch(args: argparse.Namespace) -> int:
    from node.work import watch

    watch.main(_settings(args))
    return ExitCode.OK


def _seed(args: argparse.Namespace) -> int:
    from node.work import seed, show

    with _opened(args) as node:
        show.seeds(seed.sow_files(node.store, node.frontier, node.settings, args.files))
    return ExitCode.OK


def _status(args: argparse.Namespace) -> int:
    from node.work import show_status

    with _opened(args) as node:
        show_status.status(node.store, as_json=args.json)
    return ExitCode.OK


def _check(args: argparse.Namespace) -> int:
    from node.work import show

    with _opened(args) as node:
        sound = show.check(node.store, as_json=args.json)
    return ExitCode.OK if sound else ExitCode.CHECK_FAILED


def _pause(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        operate.pause(node.store, args.reason)
    _say("paused: no more URLs are handed out; what is under way is finished ('milliarde resume' goes on)")
    return ExitCode.OK


def _resume(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        operate.resume(node.store)
    _say("going on")
    return ExitCode.OK


def _drain(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        leased, spooled = operate.drain(node.store, args.wait)
    if leased or spooled:
        _say(f"paused, but {leased} visits and {spooled} pages are still under way")
        return ExitCode.CHECK_FAILED
    _say("drained: nothing is under way ('milliarde resume' goes on)")
    return ExitCode.OK


def _key(args: argparse.Namespace) -> int:
    from node.work import key

    known = _settings_or_defaults(args).web_bot_auth
    print(key.published(known, args.files, headers=args.headers, say=_say), end="")
    return ExitCode.OK


def _exclude(args: argparse.Namespace) -> int:
    from node.work import excluding, exclusion_list, show

    if bool(args.names) == (args.list is not None):
        raise InputError("name domains, or give --list FILE")
    with _opened(args) as node:
        if args.list is None:
            taken = excluding.exclude(node.store, node.frontier, node.settings, args.names, args.reason)
            show.taken(taken, "excluded")
        else:
            show.listed(exclusion_list.put_in_force(node.settings, args.list, args.reason))
            show.many_taken(exclusion_list.purge(node.store, node.frontier, node.settings), "excluded")
            show.many_taken(exclusion_list.bring_back(node.store, node.frontier, node.settings), "included")
    return ExitCode.OK


def _include(args: argparse.Namespace) -> int:
    from node.work import excluding, exclusion_list, show

    if bool(args.names) == args.list:
        raise InputError("name domains, or give --list")
    with _opened(args) as node:
        if args.list:
            exclusion_list.lift(node.settings)
            show.many_taken(exclusion_list.bring_back(node.store, node.frontier, node.settings), "included")
        else:
            taken, still = excluding.include(node.store, node.frontier, node.settings, args.names)
            show.taken(taken, "included")
            show.still_excluded(still)
    return ExitCode.OK


def _trim(args: argparse.Namespace) -> int:
    from node.work import show, trimming

    if sum((bool(args.names), args.over is not None, args.largest is not None)) != 1:
        raise InputError("name domains, or give --over N, or --largest K")
    keep = args.over if args.keep is None else args.keep
    if keep is None or keep < 0:
        raise InputError("--keep N says how many URLs of each domain stay, 0 or more")
    with _opened(args) as node:
        if args.names:
            domains = trimming.named(args.names)
        elif args.over is not None:
            domains = trimming.longer_than(node.store, node.frontier, args.over)
        else:
            domains = trimming.longest(node.store, node.frontier, args.largest)
        taken = trimming.trim(node.store, node.frontier, node.settings, domains, keep, dry_run=args.dry_run)
        show.trimmed(taken, dry_run=args.dry_run)
    return ExitCode.OK


def _top(args: argparse.Namespace) -> int:
    from node.work import domains, show

    with _opened(args) as node:
        show.top(domains.top(node.store, node.frontier, args.most), as_json=args.json)
    return ExitCode.OK


def _inspect(args: argparse.Namespace) -> int:
    from node.work import domains, show

    with _opened(args) as node:
        found = domains.inspect(node.store, node.frontier, node.settings.data, args.name)
    show.inspection(found, as_json=args.json)
    return ExitCode.OK


def _verify(args: argparse.Namespace) -> int:
    from node.work import show_files, verify

    found = verify.verify(args.paths, jobs=args.jobs, on_file=show_files.progress())
    show_files.verified(found, as_json=args.json)
    return ExitCode.OK if found.sound else ExitCode.CHECK_FAILED


def _index(args: argparse.Namespace) -> int:
    from node.store import index
    from node.work import show_files

    if not (args.folder / "log").is_dir():
        raise InputError(f"there is no {args.folder / 'log'}: give the folder of a crawl")
    show_files.indexed(
        index.build(args.folder / "log", args.folder / "index.cdxj", warc_folder=args.folder / "warc")
    )
    return ExitCode.OK


def _explain(args: argparse.Namespace) -> int:
    from node.work import explain, questions, show_explain

    if args.stdin == (args.url is not None):
        raise InputError("give one URL, or --stdin")
    explainer = explain.Explainer(
        _settings_or_defaults(args),
        base=args.base,
        robots=questions.load(args.robots) if args.robots else None,
        agent=args.agent,
        depth=args.depth,
    )
    if args.stdin:
        for answer in questions.answers(explainer, sys.stdin.buffer):
            print(answer, flush=True)
    else:
        asked = explain.Question(url=questions.typed(args.url))
        show_explain.explained(explainer.answer(asked), as_json=args.json)
    return ExitCode.OK


def _links(args: argparse.Namespace) -> int:
    from node.work import listing, questions, show_explain

    body = questions.load(args.file)
    found = listing.list_links(_settings_or_defaults(args), body, args.base, args.content_type)
    show_explain.links(found, as_json=args.json)
    return ExitCode.OK


# -- what commands share


def _settings(args: argparse.Namespace) -> Settings:
    found = _found_settings(args)
    if found is not None:
        return found
    raise SettingsError(
        f"which node? give --config FILE, or set {CONFIG_VARIABLE} "
        f"(there is no {', '.join(map(str, CONFIG_PLACES))})"
    )


def _settings_or_defaults(args: argparse.Namespace) -> Settings:
    """Those of the node, if there is one here."""
    return _found_settings(args) or settings.build({"paths": {"data": "."}})


def _found_settings(args: argparse.Namespace) -> Settings | None:
    if args.config is not None:
        return settings.load(args.config)
    named = os.environ.get(CONFIG_VARIABLE)
    if named:
        return settings.load(Path(named))
    return next((settings.load(place) for place in CONFIG_PLACES if _is_there(place)), None)


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except PermissionError:  # sudo keeps the folder that one stands in, which may be closed to the other user
        return False


def _opened(args: argparse.Namespace) -> Any:
    from node.work.opened import opened

    return opened(_settings(args))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers its exit code. Expected errors are one sentence on stderr."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except MilliardeError as error:
        _say(f"milliarde {args.command}: {error}")
        return int(error.exit_code)
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        if library in ("", "node"):
            raise
        _say(
            f"milliarde {args.command}: the library {library} is missing or broken ({error}): "
            "install Milliarde and what it needs anew"
        )
        return int(ExitCode.NOT_INSTALLED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.OK)


def to_json(value: object) -> str:
    """JSON text of dataclasses, structs and plain values."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
