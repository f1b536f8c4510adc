"""What a page costs a node: figures that come with us, or those of a bench.json."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from deploy.errors import InputError

SHIPPED = Path(__file__).with_name("figures.toml")

Positive = Annotated[float, msgspec.Meta(gt=0)]


class FiguresError(InputError):
    """The figures can't be used; says why in one sentence."""


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Measured of a node: CPU in ms a page of an idle core, memory in MB a process.

    ``all_ms``: all processes together. ``pages_per_node_second``: what a whole node of ``vcpus`` was seen to
    do; where it is there it holds instead of arithmetic with CPU.
    """

    source: str
    fetcher_ms: Positive
    parser_ms: Positive
    redis_ms: Positive
    all_ms: Positive
    bytes_per_queued_url: Positive
    bits_per_seen_url: Positive
    fetcher_mb: Positive
    parser_mb: Positive
    watch_mb: Positive
    pages_per_node_second: Positive | None = None
    vcpus: Positive = 16

    @property
    def other_ms(self) -> float:
        """What is neither fetcher, parser nor Redis."""
        return max(0.0, self.all_ms - self.fetcher_ms - self.parser_ms - self.redis_ms)


class _Cpu(msgspec.Struct):
    fetcher: Positive
    parser: Positive
    redis: Positive


class _Rss(msgspec.Struct):
    fetcher: Positive
    parser: Positive
    watch: Positive


class _Machine(msgspec.Struct):
    line: str


class _Bench(msgspec.Struct):
    """What is of use to us of a bench.json."""

    pages_per_cpu_second: Positive
    cpu_ms_per_page: _Cpu
    bytes_per_queued_url: Positive
    bits_per_seen_url: Positive
    peak_rss_mb: _Rss
    machine: _Machine


def shipped() -> dict[str, Figures]:
    """The sets that come with us, by name."""
    return msgspec.convert(tomllib.loads(SHIPPED.read_text(encoding="utf-8")), dict[str, Figures])


def read(named: str) -> Figures:
    """The set of that name, else what a bench.json there has. Raises ``FiguresError``."""
    sets = shipped()
    if named in sets:
        return sets[named]
    try:
        bench = msgspec.json.decode(Path(named).read_bytes(), type=_Bench)
    except OSError as error:
        raise FiguresError(
            f"there are no figures {named} ({error.strerror}): give a bench.json, or {', '.join(sets)}"
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise FiguresError(f"{named} is no bench.json: {error}") from None
    cpu, rss = bench.cpu_ms_per_page, bench.peak_rss_mb
    return Figures(
        source=f"{named}: {bench.machine.line}",
        fetcher_ms=cpu.fetcher,
        parser_ms=cpu.parser,
        redis_ms=cpu.redis,
        all_ms=1000 / bench.pages_per_cpu_second,
        bytes_per_queued_url=bench.bytes_per_queued_url,
        bits_per_seen_url=bench.bits_per_seen_url,
        fetcher_mb=rss.fetcher,
        parser_mb=rss.parser,
        watch_mb=rss.watch,
    )
