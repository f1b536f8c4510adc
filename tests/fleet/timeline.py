"""Where the time of a fleet's runs goes, from the records that ``milliarde-fleet`` keeps of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

STARTS = (
    "playbook_on_start",
    "playbook_on_play_start",
    "playbook_on_task_start",
    "playbook_on_handler_task_start",
    "playbook_on_stats",
)


def tasks(record: Path) -> list[tuple[float, str]]:
    """(seconds, task) in the order of a run; a task lasts until the last of its hosts has done it."""
    events = [json.loads(path.read_text()) for path in (record / "job_events").glob("*.json")]
    begun = [
        (datetime.fromisoformat(event["created"]), event["event_data"])
        for event in sorted(events, key=lambda event: event["counter"])
        if event["event"] in STARTS
    ]
    found = []
    for (began, data), (ended, _) in pairwise(begun):
        role = f"{data['role']}: " if data.get("role") else ""
        found.append(((ended - began).total_seconds(), role + str(data.get("task") or "start")))
    return found


def lines(runs: Path, most: int) -> Iterator[str]:
    """Each run with its total, and its ``most`` longest tasks below."""
    for record in sorted(path for path in runs.iterdir() if path.is_dir()):
        found = tasks(record)
        total_s = sum(seconds for seconds, _ in found)
        yield f"{record.name}: {total_s:.1f} s, {len(found)} tasks"
        for seconds, name in sorted(found, reverse=True)[:most]:
            yield f"  {seconds:6.1f}  {name}"
