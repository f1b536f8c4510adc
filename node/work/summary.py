"""What a crawl came to: ``summary.json``, and the same for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from node.store.snapshot import Snapshot

CPU_ROLES = ("fetchers", "parsers", "redis", "watch", "crawl")


def summarise(look: Snapshot, *, reason: str, folder: Path) -> dict[str, Any]:
    """The contents of ``summary.json``. Seconds and counts are over all resumes.

    ``cpu_seconds`` by role; ``crawl`` is the command that supervises. ``dropped``: URLs not visited,
    by reason, both those taken out of the frontier and links turned away at the door. ``signals``: what
    sites said about the use of their pages; ``opted_out``: pages not used for that.
    """
    cpu = {role: look.tally.get(f"cpu_ms:{role}", 0) / 1000 for role in CPU_ROLES}
    total_cpu = sum(cpu.values())
    pages = look.pages
    return {
        "reason": reason,
        "pages": pages,
        "requests": look.tally.get("requests", 0),
        "bytes": look.tally.get("bytes", 0),
        "seconds": look.tally.get("active_ms", 0) / 1000,
        "cpu_seconds": {role: round(seconds, 3) for role, seconds in cpu.items()},
        "pages_per_cpu_second": round(pages / total_cpu, 1) if total_cpu else 0.0,
        "redis_commands_per_page": (round(look.tally.get("redis_commands", 0) / pages, 3) if pages else 0.0),
        "outcomes": dict(sorted(look.outcomes.items())),
        "dropped": look.dropped,
        "signals": look.signals,
        "opted_out": look.opted_out,
        "queued": look.count("queued"),
        "retries": look.count("retries"),
        "domains": look.count("domains"),
        "pages_parsed": look.tally.get("pages_parsed", 0),
        "links": {
            name.removeprefix("links:"): value
            for name, value in sorted(look.tally.items())
            if name.startswith("links:")
        },
        "ledger": {
            "admitted": look.count("admitted"),
            "queued": look.count("queued"),
            "leased": look.count("leased"),
            "spooled": look.count("spooled"),
            "done": look.count("done"),
            "dropped": sum(v for n, v in look.ledger.items() if n.startswith("drop:")),
            "gap": look.ledger_gap,
        },
        "dead_letters": look.dead_letters,
        "folder": str(folder),
    }


def write(summary: dict[str, Any], path: Path) -> None:
    """Write it whole or not at all."""
    beside = path.with_suffix(".json.new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
    beside.replace(path)


REASONS = {
    "finished": "finished: every URL that could be visited has been",
    "pages": "ended: the number of pages asked for is stored",
    "time": "ended: the time is up",
    "idle": "ended: no domain could be visited any more for now",
    "interrupted": "stopped: the same command goes on where this left off",
}


def human_bytes(count: float) -> str:
    """1234567 -> ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def human_seconds(seconds: float) -> str:
    """3725 -> ``1 h 02 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _list(counts: dict[str, int], most: int = 8) -> str:
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {value:,}" for name, value in ordered[:most])
    return shown + (f" and {len(ordered) - most} more kinds" if len(ordered) > most else "")


def lines(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(label, text) pairs that tell the story of a crawl."""
    seconds = summary["seconds"]
    rate = summary["pages"] / seconds if seconds else 0.0
    cpu = summary["cpu_seconds"]
    yield "crawl", REASONS[summary["reason"]]
    yield (
        "pages",
        (
            f"{summary['pages']:,} from {summary['domains']:,} domains, "
            f"{human_bytes(summary['bytes'])} in {human_seconds(seconds)} ({rate:.1f} pages/s)"
        ),
    )
    yield "requests", f"{summary['requests']:,}: {_list(summary['outcomes'])}"
    if summary["dropped"]:
        yield "not visited", _list(summary["dropped"])
    if summary["opted_out"]:
        yield "opted out", _list(summary["opted_out"])
    if summary["queued"]:
        yield "still queued", f"{summary['queued']:,}"
    yield (
        "CPU",
        (
            f"{human_seconds(sum(cpu.values()))} "
            f"({', '.join(f'{role} {value:.1f} s' for role, value in cpu.items() if value)}): "
            f"{summary['pages_per_cpu_second']:.0f} pages per CPU-second"
        ),
    )
    folder = summary["folder"]
    yield "files", f"{folder}/warc/ (pages), {folder}/index.cdxj, {folder}/log/, {folder}/summary.json"
