"""The figures follow from the measurements as the document says; no time is measured here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import figures, in_flight, nodes, per_run, report, scale_figures
from tests.bench.__main__ import missing
from tests.bench.beside import Fairness, Rewrite, Waits
from tests.bench.calls import Cost
from tests.bench.crawls import Run, Side
from tests.bench.figures import Goal
from tests.bench.frontier import Weights, level_of, url_of
from tests.bench.in_flight import VISITS, Look
from tests.bench.laps import Stage, Staged
from tests.bench.nodes import COUNTS, Ran
from tests.bench.per_run import Raw
from tests.bench.processes import Machine, RunError, Usage, measure
from tests.bench.scale import Point
from tests.bench.served import Seen, summarise
from tests.web.log import Entry


def run_of(side: Side, cpu_s: float, *, pages: int = 1000, start_only: bool = False, **changes: Any) -> Run:
    """A run that took ``cpu_s`` on a machine with nothing else to do, in 10 s on two cores."""
    told = {
        "cpu_seconds": {"fetchers": 0.4 * cpu_s, "parsers": 0.3 * cpu_s, "redis": 0.1 * cpu_s, "watch": 0.05},
        "redis_commands_per_page": 0.3,
    }
    seen = Seen(
        cpu_s=1.0,
        pages=pages,
        robots=10,
        connections=pages + 10,
        hosts=10,
        resumed=990,
        page_bytes=1,
        other=0,
    )
    machine = Machine(busy_s=changes.get("busy_s", cpu_s + 1.0), idle_s=4.0, steal_s=0.0)
    usage = Usage(10.0, cpu_s, {"fetcher": 90.0, "parser": 80.0}, machine)
    return Run(side, pages, usage, seen, told if side == "ours" else {}, start_only)


WEIGHTS = Weights(
    domains=10,
    urls_per_domain=100,
    urls=1000,
    redis_bytes=80_000,
    filter_bytes=4_000,
    filter_string_bytes=3_000,
    probes=10_000,
    false_positives=8,
    error_rate_set=0.001,
    redis_cpu_s=0.1,
)
STAGED = Staged(
    [
        Stage("fetcher", "visit", "", 10, 10_000_000, 200_000),
        Stage("fetcher", "settle", "", 10, 1_000_000, 300_000),
        Stage("fetcher", "fetch alone", "visit", 10, 8_000_000, 0),
        Stage("parser", "page", "", 10, 9_000_000, 0),
    ],
    10,
    100_000.0,
    70.0,
    1.0,
)


def raw_of(*runs: Run, starts: tuple[Run, ...] = ()) -> Raw:
    return Raw(runs, starts, WEIGHTS, STAGED)


def by_name(raw: Raw) -> dict[str, figures.Figure]:
    return {row.name: row for row in figures.figures(raw)}


def test_a_ratio_is_taken_to_our_runs_next_to_it() -> None:
    """A machine that slows down between two rounds does not change the ratio of either."""
    raw = raw_of(
        run_of("ours", 2.0),
        run_of("scrapy-lxml", 10.0),
        run_of("ours", 2.0),
        run_of("ours", 6.0),
        run_of("scrapy-lxml", 30.0),
        run_of("ours", 6.0),
    )
    assert per_run.ratios(raw, "scrapy-lxml") == pytest.approx([5.0, 5.0])
    between = raw_of(run_of("ours", 2.0), run_of("scrapy-lxml", 12.0), run_of("ours", 4.0))
    assert per_run.ratios(between, "scrapy-lxml") == pytest.approx([4.0])
    assert by_name(raw)["ratio_to_scrapy"].value == pytest.approx(5.0)


def test_the_figure_is_the_median_and_the_spread_is_shown() -> None:
    """One run that somebody disturbed moves the spread, not the figure."""
    raw = raw_of(*(run_of("ours", cpu_s) for cpu_s in (2.0, 2.5, 10.0)), run_of("scrapy-lxml", 10.0))
    row = by_name(raw)["pages_per_cpu_second"]
    assert (row.value, row.lowest, row.highest) == pytest.approx((400.0, 100.0, 500.0))


def test_the_parts_of_a_page_add_up_to_what_the_kernel_counted() -> None:
    """No CPU time is lost between the processes: what none of them books is the command's own."""
    run = run_of("ours", 2.0)
    parts = per_run.cpu_ms_by_role(run)
    assert sum(parts.values()) == pytest.approx(2.0)
    assert parts["fetcher"] == pytest.approx(0.8)
    assert parts["crawl"] == pytest.approx(2.0 - 0.8 - 0.6 - 0.2 - 0.05)


def test_a_start_is_taken_off_with_its_page() -> None:
    """The column without start is what further pages cost; the headline has the start in it."""
    starts = (
        run_of("ours", 1.0, pages=1, start_only=True),
        run_of("scrapy-lxml", 1.0, pages=1, start_only=True),
    )
    rows = by_name(
        raw_of(run_of("ours", 3.0, pages=1001), run_of("scrapy-lxml", 11.0, pages=1001), starts=starts)
    )
    row = rows["pages_per_cpu_second"]
    assert row.value == pytest.approx(1001 / 3.0)
    assert row.without_start == pytest.approx(1000 / 2.0)
    assert rows["ratio_to_scrapy"].without_start == pytest.approx(5.0)
    assert rows["cpu_ms_per_page.fetcher"].without_start == pytest.approx(0.4 * 2.0)
    assert rows["parser_pages_per_second"].without_start == pytest.approx(1000 / (0.3 * 2.0))


def test_weights_and_shares() -> None:
    """Filters are not counted as queues, and a host's first visit can't be a resumed one."""
    rows = by_name(raw_of(run_of("ours", 2.0), run_of("scrapy-lxml", 10.0)))
    assert rows["bytes_per_queued_url"].value == pytest.approx(76.0)
    assert rows["bits_per_seen_url"].value == pytest.approx(24.0)
    assert rows["seen_false_positive_rate"].value == pytest.approx(0.0008)
    assert rows["tls_resumed_share"].value == pytest.approx(990 / 1000)


def test_a_goal_says_which_way_it_points() -> None:
    """More pages are better, fewer milliseconds are."""
    assert Goal(5, least=True).met(5.0)
    assert not Goal(5, least=True).met(4.99)
    assert Goal(0.15, least=False).met(0.15)
    assert not Goal(0.15, least=False).met(0.151)


def test_a_disturbed_machine_is_told_of() -> None:
    """A reader learns that others were at work, and whether the server was the limit."""
    quiet = figures.remarks(raw_of(run_of("ours", 2.0), run_of("scrapy-lxml", 10.0)))
    assert any("not the limit" in each for each in quiet)
    assert not any("not quiet" in each for each in quiet)
    loud = figures.remarks(raw_of(run_of("ours", 2.0, busy_s=13.0), run_of("scrapy-lxml", 10.0)))
    assert any("not quiet" in each and "1.00 cores" in each for each in loud)


def test_goals_of_another_machine_are_put_into_proportion() -> None:
    """Scrapy does 100 pages per CPU-second here and did 103 there: ours would be as much quicker."""
    said = figures.remarks(raw_of(run_of("ours", 2.0), run_of("scrapy-lxml", 10.0)))
    (told,) = [each for each in said if "At that speed" in each]
    assert "1.03 times what it does here" in told
    assert "515 pages per CPU-second (goal 500)" in told  # 500 x 1.03
    assert "fetcher 0.78 (goal 0.9), parser 0.58 (goal 0.88), redis 0.19 (goal 0.15)" in told
    assert "and 1717 pages per CPU-second of one parser" in told


def test_bench_json_has_the_figures_at_its_top() -> None:
    """Names that others rely on."""
    raw = raw_of(run_of("ours", 2.0), run_of("scrapy-lxml", 10.0), run_of("scrapy-selectolax", 5.0))
    flat = figures.flat(figures.figures(raw))
    assert flat["pages_per_cpu_second"] == pytest.approx(500)
    assert set(flat["cpu_ms_per_page"]) == {"fetcher", "parser", "redis", "watch", "crawl"}
    assert set(flat["peak_rss_mb"]) == {"fetcher", "parser"}
    assert {
        "ratio_to_scrapy",
        "ratio_to_scrapy_selectolax",
        "scrapy_pages_per_cpu_second",
        "parser_pages_per_second",
        "redis_commands_per_page",
        "bytes_per_queued_url",
        "bits_per_seen_url",
        "seen_false_positive_rate",
    } <= set(flat)


def test_the_server_log_is_counted() -> None:
    """robots.txt is no page, and an answer that is not 200 is neither."""

    def entry(conn: int, host: str, path: str, *, status: int = 200, resumed: bool = False) -> Entry:
        return Entry(0.0, conn, "https", 443, host=host, path=path, status=status, bytes=50, resumed=resumed)

    seen = summarise(
        [
            entry(1, "a.test", "/robots.txt"),
            entry(2, "a.test", "/", resumed=True),
            entry(2, "b.test", "/"),
            entry(3, "b.test", "/gone", status=404),
        ],
        cpu_s=1.0,
    )
    assert (seen.pages, seen.robots, seen.other) == (2, 1, 1)
    assert (seen.connections, seen.hosts, seen.resumed, seen.page_bytes) == (3, 2, 1, 100)


def test_stages_are_summed_without_their_parts() -> None:
    """A piece that is timed apart is not counted twice, and stands below its stage."""
    lines = report.stage_table(STAGED).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "fetcher: visit",
        "· fetch alone",
        "fetcher: settle",
        "**fetcher, all stages**",
        "parser: page",
        "**parser, all stages**",
    ]
    assert [cell.strip() for cell in lines[5].split("|")[2:4]] == ["1.10", "0.050"]


def test_numbers_go_into_the_document_and_nothing_else_changes(tmp_path: Path) -> None:
    """Renewing the numbers twice leaves one set of them, and the prose as it was."""
    page = tmp_path / "performance.md"
    page.write_text(f"# Before\n\n{report.NUMBERS[0]}\nold\n{report.NUMBERS[1]}\n\nAfter\n")
    for text in ("one", "two"):
        report.into_document(page, text)
    assert page.read_text() == f"# Before\n\n{report.NUMBERS[0]}\n\ntwo\n\n{report.NUMBERS[1]}\n\nAfter\n"
    page.write_text("no marks")
    with pytest.raises(ValueError, match="no place for numbers"):
        report.into_document(page, "three")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (510.4, "510"),
        (74.55, "74.5"),
        (5.0, "5.00"),
        (0.145, "0.145"),
        (0.00085, "0.00085"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    """No more digits than were measured."""
    assert report.number(value) == text


def test_urls_to_weigh_are_different_and_as_long_as_said() -> None:
    """64 characters each, of which no two are alike; probes are of the worst level, so none displaces."""
    urls = {url_of("weight-000001.test", number) for number in (*range(3000), *range(10**6, 10**6 + 3000))}
    assert len(urls) == 6000
    assert {len(url) for url in urls} == {64}
    assert level_of(10**6) > max(map(level_of, range(3000)))


def test_all_processes_of_a_command_are_seen(tmp_path: Path) -> None:
    """A child's memory and CPU time count for the command, and its role is told by its words."""
    child = "import time; held = bytearray(60_000_000); time.sleep(0.8)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, 'child'], check=True)"
    usage = measure(
        [sys.executable, "-c", code],
        role_of=lambda words: "child" if words.rstrip().endswith(" child") else "parent",
        output=tmp_path / "log",
        timeout_s=30,
        cwd=tmp_path,
    )
    assert usage.peak_rss_mb["child"] > 60 > usage.peak_rss_mb["parent"]
    assert usage.cpu_s > 0


def test_a_run_that_fails_says_its_last_words(tmp_path: Path) -> None:
    """A benchmark never reports on a command that did not do its work."""
    with pytest.raises(RunError, match="ended with 3"):
        measure(
            [sys.executable, "-c", "import sys; print('no room'); sys.exit(3)"],
            role_of=str,
            output=tmp_path / "log",
            timeout_s=30,
            cwd=tmp_path,
        )
    with pytest.raises(RunError, match="longer than 0 s"):
        measure(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            role_of=str,
            output=tmp_path / "log",
            timeout_s=0.2,
            cwd=tmp_path,
        )


def test_what_is_missing_is_said_in_a_sentence() -> None:
    """Without nginx or Scrapy the way to get it is named."""
    assert "nginx-light" in (missing(None, scrapy=True) or "")
    assert "scripts/setup --bench" in (missing(Path("/usr/sbin/nginx"), scrapy=False) or "")
    assert missing(Path("/usr/sbin/nginx"), scrapy=True) is None


def cost_of(cpu_us: float) -> Cost:
    return Cost(10, cpu_us, 0.8 * cpu_us, 1.5 * cpu_us, script_us=0.9 * cpu_us, wall_us=1.2 * cpu_us)


WAITS = Waits(1_000, 40.0, 450.0)
REWRITE = Rewrite(3.0, 12.0, 30_000_000, 100_000_000, 70_000_000)


def point_of(domains: int, queued: int, *, lease_us: float = 700.0, page_us: float = 100.0) -> Point:
    pages_us = tuple(
        page_us * slower for slower in (1.0, 1.0, 1.5, 2.0, 1.0)
    )  # the machine's speed, by round
    return Point(
        domains, queued, 10**8, cost_of(lease_us), cost_of(800.0), cost_of(1500.0), pages_us, WAITS, REWRITE
    )


def test_the_price_of_a_large_frontier_is_held_against_a_small_one() -> None:
    """Calls at each large frontier have their goal; growth is that of the worst of them."""
    points = [
        point_of(2_000, 10_000, page_us=100.0),
        point_of(83_000, 10_000_000, page_us=108.0),
        point_of(250_000, 10_000_000, lease_us=1_100.0, page_us=112.0),
    ]
    rows = {row.name: row for row in scale_figures.figures(points)}
    assert set(rows) == {
        "lease_ms_per_call.83000",
        "settle_ms_per_call.83000",
        "lease_ms_per_call.250000",
        "settle_ms_per_call.250000",
        "redis_growth_with_queued",
    }
    assert rows["lease_ms_per_call.250000"].value == pytest.approx(1.1)
    missed = {name for name, row in rows.items() if row.goal is not None and not row.goal.met(row.value)}
    assert missed == {"lease_ms_per_call.250000"}
    row = rows["lease_ms_per_call.250000"]
    assert [row.lowest, row.highest] == pytest.approx([0.88, 1.65])
    growth = rows["redis_growth_with_queued"]
    assert [growth.lowest, growth.value, growth.highest] == pytest.approx([1.12] * 3)
    assert scale_figures.figures(points[:1]) == []
    text = scale_figures.scale_table(points)
    assert "| 250,000 / 10,000,000 " in text
    between = point_of(83_000, 1_000_000, lease_us=9_000.0, page_us=900.0)
    assert scale_figures.figures([points[0], between, *points[1:]]) == list(rows.values())
    assert "1.10 / 0.990 / 1.32" in text
    text = scale_figures.beside_table(points)
    assert " 909 / 1,250 / 667 " in text
    assert " 40.0 / 450 |" in text
    assert " 3.00 / 12.0 |" in text
    assert " 70 / 100 / 130 |" in text


def test_a_frontier_is_fair_where_the_longest_wait_is_near_the_mean() -> None:
    """Waits are counted from when a domain is due, once the warming up is over."""
    fairness = Fairness()
    fairness.due("a.test", 0.0)
    fairness.visited("a.test", 5_000.0)
    fairness.forget()
    for name, due, at in (("a.test", 10.0, 30.0), ("b.test", 0.0, 100.0), ("c.test", 50.0, 50.0)):
        fairness.due(name, due)
        fairness.visited(name, at)
    assert fairness.waits() == Waits(3, 40.0, 100.0)
    with pytest.raises(KeyError):
        fairness.visited("a.test", 60.0)


def _looks(**changes: Any) -> list[Look]:
    """A hundred seconds of a full fetcher; it is late by 3 ms, but for two seconds."""
    late = {17: 80.0, 60: 70.0}
    return [
        Look(float(at), changes.get("visits", VISITS), 500.0 + at / 10, at * 0.5, late.get(at, 3.0), 300 * at)
        for at in range(100)
    ]


def test_a_full_fetcher_in_figures() -> None:
    """Memory counts at its largest, lateness at the 99th of a hundred seconds, CPU time for each page."""
    found = {row.name: row for row in in_flight.figures(_looks())}
    assert found["rss"].value == pytest.approx(509.9)
    assert (found["lag_p99"].value, found["lag"].value, found["lag_p99"].highest) == (80.0, 3.0, 80.0)
    assert found["lag_p99"].goal is not None
    assert not found["lag_p99"].goal.met(found["lag_p99"].value)
    assert found["rate"].value == pytest.approx(300)
    assert found["cpu"].value == pytest.approx(0.5 / 300 * 1000)


def test_a_fetcher_that_was_not_full_is_no_measurement() -> None:
    """A tenth fewer visits than were wanted, and nothing is said."""
    with pytest.raises(RunError, match="between 5,800 and 5,800"):
        in_flight.figures(_looks(visits=5_800))


def test_nodes_are_compared_round_by_round() -> None:
    """Each number of nodes with the single one of its own turn: the machine may be slower in the next."""
    ran = [
        Ran(count, 1_000, {"fetcher": slow * 2.0, "redis": slow * (1.0 + (0.6 if count == 12 else 0.03))})
        for slow in (1.0, 2.0, 1.5)
        for count in COUNTS
    ]
    ran[0] = Ran(1, 1_000, {"fetcher": 2.0, "redis": 1.03})
    found = nodes.figures(ran)
    assert [row.name for row in found] == ["nodes_2", "nodes_4", "nodes_12"]
    assert [row.value for row in found] == [pytest.approx(1.0), pytest.approx(1.0), pytest.approx(3.6 / 3.03)]
    assert [row.goal.met(row.value) for row in found if row.goal] == [True, True, False]
    head, _, *rows = nodes.nodes_table(ran).splitlines()
    assert len(rows) == len(COUNTS)
    assert [cell.strip() for cell in head.split("|")[4:6]] == ["fetcher", "redis"]
    assert [cell.strip() for cell in rows[-1].split("|")[4:6]] == ["3.00", "2.40"]
