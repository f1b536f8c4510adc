"""``scripts/soak``: one long run and its verdict, as tables on stdout; exit code 9 where a claim fails."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from node.errors import ExitCode
from tests.bench import machine
from tests.soak import chaos, fleet, hostile, leaks, verdict
from tests.soak.verdict import Verdict

REPO = Path(__file__).resolve().parents[2]
DOCUMENT = REPO / "docs" / "soak.md"


class Soak(Protocol):
    """What a module must have to be one."""

    HELP: str

    def options(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""

    def run(self, args: argparse.Namespace, work: Path, say: Callable[[str], None]) -> Verdict:
        """Do it."""


SOAKS: dict[str, Soak] = {"hostile": hostile, "chaos": chaos, "leaks": leaks, "fleet": fleet}


def main(argv: list[str] | None = None) -> int:
    """Answers an exit code."""
    args = _arguments(argv)
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"soak: {words} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)

    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"milliarde-soak-{args.soak}-", dir=args.work))
    facts, versions = machine.facts(), machine.versions(REPO)
    try:
        found = SOAKS[args.soak].run(args, work, say)
    except (RuntimeError, AssertionError, OSError) as error:
        print(f"soak: {error}\nsoak: what it left is in {work}", file=sys.stderr)
        return int(ExitCode.CHECK_FAILED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    line = (
        f"{time.strftime('%Y-%m-%d')}, commit {versions['commit']}, {facts['usable_cores']} cores of "
        f"{facts['cpu']}, {facts['system']}, load before it {facts['load'][0]}, in "
        f"{time.monotonic() - began:.0f} s."
    )
    text = f"{line}\n\n{found.text()}"
    print(text)
    if args.docs:
        verdict.into_document(DOCUMENT, args.soak, text)
    if found.holds:
        shutil.rmtree(work, ignore_errors=True)
        return int(ExitCode.OK)
    say(f"a claim does not hold; what it left is in {work}")
    return int(ExitCode.CHECK_FAILED)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Long runs outside CI.")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where its files are kept meanwhile")
    parser.add_argument("--docs", action="store_true", help="also put the tables into docs/soak.md")
    soaks = parser.add_subparsers(dest="soak", required=True)
    for name, soak in SOAKS.items():
        soak.options(soaks.add_parser(name, help=soak.HELP, description=soak.HELP))
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
