"""One run of chaos by hand, as the test does it: ``python -m tests.chaos --seed N``.

Prints what struck and what came of it; exit code 9 where a claim does not hold, and then what the crawl left
is kept. ``--docs`` puts it into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from node.errors import ExitCode
from tests.chaos import place, proof
from tests.chaos.plan import LEAST_FAULTS, short
from tests.chaos.run import go, keep, prepared
from tests.soak.verdict import into_document, table

REPO = Path(__file__).resolve().parents[2]
DOCUMENT = REPO / "docs" / "reliability.md"
MARK = "chaos-run"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the schedule; without one it is drawn")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/reliability.md")
    args = parser.parse_args()
    reason = place.why_not()
    if reason is not None:
        sys.exit(f"chaos can't be had here: {reason}")
    seed = args.seed if args.seed is not None else secrets.randbelow(1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="milliarde-chaos-"))
    with prepared(short(seed), folder, folder / "tls") as run:
        go(run, lambda words: print(words, flush=True))
        verdict = proof.judge(run, LEAST_FAULTS)
        text = "\n\n".join((table(("fault", "times"), proof.fault_table(run)), verdict.text()))
        print(text)
        if not verdict.holds:
            print(f"what it left is in {keep(run, folder)}")
    if verdict.holds:
        place.remove(folder)
    if args.docs:
        into_document(DOCUMENT, MARK, text)
    return int(ExitCode.OK if verdict.holds else ExitCode.CHECK_FAILED)


if __name__ == "__main__":
    sys.exit(main())
