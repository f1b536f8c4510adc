"""The commands: what each does is in ``node.work``, imported when it is asked for. Answers exit codes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from node.cli import loading, which
from node.errors import ExitCode, InputError


def crawl(args: argparse.Namespace) -> int:
    from node.work import crawl
    from node.work.crawl_plan import Plan

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
        Plan(
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


def fetcher(args: argparse.Namespace) -> int:
    with loading.for_life():
        from node.work import fetcher

    fetcher.main(which.of_node(args), args.number)
    return ExitCode.OK


def parser_process(args: argparse.Namespace) -> int:
    with loading.for_life():
        from node.work import parser

    parser.main(which.of_node(args), args.number)
    return ExitCode.OK


def watch(args: argparse.Namespace) -> int:
    with loading.for_life():
        from node.work import watch

    watch.main(which.of_node(args))
    return ExitCode.OK


def seed(args: argparse.Namespace) -> int:
    from node.work import seed, show

    with _opened(args) as node:
        show.seeds(seed.sow_files(node.store, node.frontier, node.settings, args.files))
    return ExitCode.OK


def status(args: argparse.Namespace) -> int:
    from node.work import show_status

    with _opened(args) as node:
        show_status.status(node.store, as_json=args.json)
    return ExitCode.OK


def check(args: argparse.Namespace) -> int:
    from node.work import repairing, show

    if args.repair:
        done, after = repairing.repaired(which.of_node(args))
        sound = show.repaired(done, after, as_json=args.json)
    else:
        with _opened(args) as node:
            sound = show.check(node.store, every_url=args.every_url, as_json=args.json)
    return ExitCode.OK if sound else ExitCode.CHECK_FAILED


def pause(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        operate.pause(node.store, args.reason)
    say("paused: no more URLs are handed out; what is under way is finished ('milliarde resume' goes on)")
    return ExitCode.OK


def resume(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        operate.resume(node.store)
    say("going on")
    return ExitCode.OK


def drain(args: argparse.Namespace) -> int:
    from node.work import operate

    with _opened(args) as node:
        leased, spooled = operate.drain(node.store, args.wait)
    if leased or spooled:
        say(f"paused, but {leased} visits and {spooled} pages are still under way")
        return ExitCode.CHECK_FAILED
    say("drained: nothing is under way ('milliarde resume' goes on)")
    return ExitCode.OK


def key(args: argparse.Namespace) -> int:
    from node.work import key

    known = which.of_node_or_defaults(args).web_bot_auth
    print(key.published(known, args.files, headers=args.headers, say=say), end="")
    return ExitCode.OK


def exclude(args: argparse.Namespace) -> int:
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


def include(args: argparse.Namespace) -> int:
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


def trim(args: argparse.Namespace) -> int:
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


def top(args: argparse.Namespace) -> int:
    from node.work import domains, show

    with _opened(args) as node:
        show.top(domains.top(node.store, node.frontier, args.most), as_json=args.json)
    return ExitCode.OK


def inspect(args: argparse.Namespace) -> int:
    from node.work import domains, show

    with _opened(args) as node:
        found = domains.inspect(node.store, node.frontier, node.settings.data, args.name)
    show.inspection(found, as_json=args.json)
    return ExitCode.OK


def dead(args: argparse.Namespace) -> int:
    from node.work import dead, show_files

    with _opened(args) as node:
        if args.requeue or args.action == "requeue":
            back, stay = dead.requeue(node.store, node.settings.warc_folder, args.names)
            say(f"{back:,} pages are to be parsed again")
            if stay:
                say(f"{stay:,} stay, since their WARC files are no longer here")
        else:
            show_files.dead_letters(dead.letters(node.store, args.names), args.most, as_json=args.json)
    return ExitCode.OK


def verify(args: argparse.Namespace) -> int:
    from node.work import show_files, verify

    found = verify.verify(args.paths, jobs=args.jobs, on_file=show_files.progress())
    show_files.verified(found, as_json=args.json)
    return ExitCode.OK if found.sound else ExitCode.CHECK_FAILED


def index(args: argparse.Namespace) -> int:
    from node.store import index
    from node.work import show_files

    if not (args.folder / "log").is_dir():
        raise InputError(f"there is no {args.folder / 'log'}: give the folder of a crawl")
    show_files.indexed(
        index.build(
            args.folder / "log",
            args.folder / "index.cdxj",
            warc_folder=args.folder / "warc",
            only_here=args.only_here,
        )
    )
    return ExitCode.OK


def explain(args: argparse.Namespace) -> int:
    from node.work import explain, questions, show_explain

    if args.stdin == (args.url is not None):
        raise InputError("give one URL, or --stdin")
    explainer = explain.Explainer(
        which.of_node_or_defaults(args),
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


def links(args: argparse.Namespace) -> int:
    from node.work import listing, questions, show_explain

    body = questions.load(args.file)
    found = listing.list_links(which.of_node_or_defaults(args), body, args.base, args.content_type)
    show_explain.links(found, as_json=args.json)
    return ExitCode.OK


def _opened(args: argparse.Namespace) -> Any:
    from node.work.opened import opened

    return opened(which.of_node(args))


def say(text: str) -> None:
    """Talk to people."""
    print(text, file=sys.stderr)
