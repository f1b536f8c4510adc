"""``milliarde-fleet plan`` as a command: what it prints, what it reads, what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from deploy import figures, fleet, prices
from deploy.errors import ExitCode

REPO = Path(__file__).resolve().parents[2]
BENCH: dict[str, Any] = {
    "pages_per_cpu_second": 400.0,
    "cpu_ms_per_page": {"fetcher": 1.2, "parser": 1.1, "redis": 0.1, "watch": 0.05, "crawl": 0.05},
    "bytes_per_queued_url": 70.0,
    "bits_per_seen_url": 23.0,
    "peak_rss_mb": {"fetcher": 130.0, "parser": 95.0, "redis": 20.0, "watch": 40.0},
    "machine": {"line": "2026-12-02, some machine", "cores": 16},
    "plan": {"name": "default"},
}
NODE = {
    "state": "crawling",
    "version": "0.1.0",
    "pages": 400_000,
    "pages_per_s": 900.0,
    "pressure": "politeness",
    "disk_free_bytes": 10**12,
    "disk_total_bytes": 2 * 10**12,
    "seconds": 600.0,
}


def test_it_explains_itself_in_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each limit has a line, and what was assumed is said with it."""
    assert fleet.main(["plan", "--pages", "1e9", "--hours", "24"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    labels = [line.split()[0] for line in lines]
    assert labels[:3] == ["plan", "binds", "politeness"]
    text = "\n".join(lines)
    for told in (
        "14,286 requests/s",
        "errors 7.4%",
        "2026-12-01",
        "on demand, us-east-1",
        "in 24 h it can't be",
    ):
        assert told in text


def test_programs_get_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All numbers, what was asked, and where figures and prices come from."""
    assert fleet.main(["plan", "--nodes", "5", "--archive", "collected", "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["nodes"], told["pace_set_by"]) == (5, "politeness")
    assert told["usd"] == pytest.approx(5 * told["hours"] * told["usd_per_node_hour"], abs=0.1)
    assert [each["nodes"] for each in told["beside"]] == [4, 6]
    assert told["asked"]["archive"] == "collected"


def test_figures_of_a_bench_json_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As scripts/bench writes it, whatever else is in it."""
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(BENCH))
    assert fleet.main(["plan", "--bench", str(path), "--json"]) == ExitCode.OK
    assert "some machine" in json.loads(capsys.readouterr().out)["figures"]
    assert figures.read(str(path)).other_ms == pytest.approx(2.5 - 2.4)


def test_what_is_shipped_is_what_was_measured() -> None:
    """The defaults are within the drift of a quarter of what docs/performance.md shows today."""
    document = (REPO / "docs" / "performance.md").read_text(encoding="utf-8")

    def shown(row: str) -> float:
        line = next(line for line in document.splitlines() if line.startswith(f"| {row} "))
        return float(line.split("|")[3].replace(",", ""))

    measured = figures.shipped()["measured"]
    for row, value in (
        ("CPU per page, fetcher, ms", measured.fetcher_ms),
        ("CPU per page, parser, ms", measured.parser_ms),
        ("CPU per page, redis, ms", measured.redis_ms),
        ("pages per CPU-second, all processes of the node", 1000 / measured.all_ms),
        ("Redis memory per queued URL of 64 characters, full queues, bytes", measured.bytes_per_queued_url),
        ("largest fetcher process, MB", measured.fetcher_mb),
    ):
        assert value == pytest.approx(shown(row), rel=0.25), row


def test_a_price_list_of_ones_own_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its spot price, where it has one."""
    path = tmp_path / "prices.toml"
    path.write_text(
        'region = "eu-central-1"\ndate = "2026-12"\n[instances."m.16"]\nvcpus = 16\nmemory_gib = 128\n'
        "disk_gb = 7500\ninternet_gbps = 5\non_demand = 2.0\nspot = 0.5\n"
    )
    words = ["plan", "--prices", str(path), "--instance", "m.16", "--json"]
    assert fleet.main(words) == fleet.main([*words, "--spot"]) == ExitCode.OK
    plain, spot = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (plain["usd_per_node_hour"], spot["usd_per_node_hour"]) == (2.0, 0.5)
    assert "eu-central-1" in plain["prices"]


def test_what_leaves_the_region_costs_by_tiers() -> None:
    """10 TB at 9 cents, 40 at 8.5, the rest at 7."""
    listed = prices.read()
    assert listed.egress_usd(10e12) == pytest.approx(900)
    assert listed.egress_usd(31e12) == pytest.approx(900 + 21_000 * 0.085)
    assert listed.egress_usd(100e12) == pytest.approx(900 + 3_400 + 50_000 * 0.07)


def test_the_table_in_the_document_is_the_command_s(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/operate.md shows what the command answers today, not what it once did."""
    assert fleet.main(["plan", "--table"]) == ExitCode.OK
    assert capsys.readouterr().out in (REPO / "docs" / "operate.md").read_text(encoding="utf-8")


def test_during_a_crawl_it_tells_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what the status command says, in a file or on stdin."""
    told = json.dumps({"nodes": {"node01": NODE}, "totals": {}})
    (tmp_path / "status.json").write_text(told)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(told.encode())))
    for source in (str(tmp_path / "status.json"), "-"):
        assert fleet.main(["plan", "--now", source, "--pages", "1e6"]) == ExitCode.OK
        labels = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
        assert labels == ["now", "done", "cost", "disk", "nodes"]
    words = ["plan", "--now", str(tmp_path / "status.json"), "--json", "--elapsed", "2"]
    assert fleet.main(words) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["hours_so_far"] == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--instance", "x9.large"], ExitCode.BAD_INPUT),
        (["--spot"], ExitCode.BAD_INPUT),
        (["--prices", "nowhere.toml"], ExitCode.BAD_INPUT),
        (["--prices", __file__], ExitCode.BAD_INPUT),
        (["--bench", "nowhere.json"], ExitCode.BAD_INPUT),
        (["--bench", __file__], ExitCode.BAD_INPUT),
        (["--now", "nowhere.json"], ExitCode.BAD_INPUT),
        (["--now", __file__], ExitCode.BAD_INPUT),
        (["--error-share", "0.6", "--redirect-share", "0.6"], ExitCode.BAD_INPUT),
        (["--pages", "1e13"], ExitCode.BAD_INPUT),
        (["--now"], ExitCode.BAD_SETTINGS),
    ],
)
def test_what_can_t_be_used_is_one_sentence(
    words: list[str], code: ExitCode, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, with its exit code, and nothing on stdout."""
    monkeypatch.delenv("MILLIARDE_INVENTORY", raising=False)
    assert fleet.main(["plan", *words]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [
        '{"pages_per_cpu_second": 0}',
        '{"pages_per_cpu_second": 300}',
        '{"pages_per_cpu_second": -1, "cpu_ms_per_page": {}}',
        "[]",
        "",
        "\x00",
    ],
)
def test_a_bench_json_with_figures_that_can_t_be_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is divided by zero, and nothing made up for what is missing."""
    path = tmp_path / "bench.json"
    path.write_text(content)
    assert fleet.main(["plan", "--bench", str(path)]) == ExitCode.BAD_INPUT
    assert "is no bench.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--pages", "0"], ["--pages", "nan"], ["--hours", "-1"], ["--nodes", "1.5"], ["--delay", "a"]]
)
def test_words_that_are_no_numbers_are_wrong_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Said by which option, with its bounds."""
    with pytest.raises(SystemExit) as ended:
        fleet.main(["plan", *words])
    assert ended.value.code == ExitCode.USAGE
    assert words[0] in capsys.readouterr().err
