"""Boxes to play with: ``python -m tests.fleet up --boxes 3 --dir DIR``, until Ctrl-C or SIGTERM.

Writes ``inventory.ini``, ``ssh_config``, ``key``, ``known_hosts`` into DIR and says how to get in. Whatever
talks to the boxes (ssh, ansible) must run inside the control namespace that is named.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from tests.fleet import timeline
from tests.fleet.base import Unavailable, base
from tests.fleet.box import DISK
from tests.fleet.boxes import Fleet
from tests.fleet.shell import Failed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("base", help="make (or find) what boxes are made from, and say where it is")
    up = commands.add_parser("up", help="boot some boxes and keep them until told to stop")
    up.add_argument("--boxes", type=int, default=3)
    up.add_argument("--dir", type=Path, required=True, help="for inventory, key and ssh_config")
    up.add_argument("--disk-mb", type=int, default=512, help=f"size of each box's own disk, {DISK}")
    runs = commands.add_parser("timeline", help="where the time of recorded runs went, task by task")
    runs.add_argument("runs", type=Path, metavar="DIR", help="$MILLIARDE_RUNS/runs of an operator")
    runs.add_argument("-n", type=int, default=12, dest="most", help="tasks of each run (12)")
    return parser.parse_args()


def main() -> None:
    """Parse the arguments and keep boxes."""
    arguments = _arguments()
    try:
        if arguments.command == "base":
            print(base())
            return
        if arguments.command == "timeline":
            print("\n".join(timeline.lines(arguments.runs, arguments.most)))
            return
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # also while booting: the boxes are ended
        began = time.monotonic()
        with Fleet(arguments.dir, arguments.boxes, disk_mb=arguments.disk_mb) as fleet:
            took = time.monotonic() - began
            print(f"the fleet is up: {arguments.boxes} boxes after {took:.1f} s; each has {DISK}")
            print(f"in: ip netns exec {fleet.control} ssh -F {fleet.folder}/ssh_config box1")
            print(
                f"ansible: ip netns exec {fleet.control} ansible-playbook -i {fleet.folder}/inventory.ini ..."
            )
            print(
                f"servers go to {fleet.network.address} in the control namespace; Ctrl-C ends all", flush=True
            )
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stop.set())
            stop.wait()
    except (Unavailable, Failed) as error:
        sys.exit(f"no boxes: {error}")


if __name__ == "__main__":
    main()
