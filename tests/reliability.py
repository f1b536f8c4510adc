"""Renders the table of cases in docs/reliability.md: ``python -m tests.reliability`` writes it.

A case is something that went wrong in other crawlers, as their trackers tell. Each is held by a test here;
that the page is up to date and the tests named exist is tested, too.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.soak.verdict import into_document, table

REPO = Path(__file__).resolve().parent.parent
PAGE = REPO / "docs" / "reliability.md"
MARK = "cases"

CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    # case: what must hold, and the tests that hold it
    "F01": (
        "Queues inside are bounded: a slow stage makes those before it wait.",
        (
            "tests/whole/test_bad_afternoon.py::test_one_site_in_trouble_and_a_slow_parser_are_nobody_else_s_trouble",
            "tests/store/test_lease.py::test_pages_and_spool_count_towards_their_bounds",
        ),
    ),
    "F02": (
        "What was full takes work again by itself.",
        (
            "tests/whole/test_watermarks.py::test_a_disk_that_fills_and_is_freed",
            "tests/work/test_signals.py::test_a_full_spool_makes_all_wait_and_charges_nobody",
        ),
    ),
    "F04": (
        "A slow visit keeps its lease; where it is lost, one result is stored at most.",
        (
            "tests/work/test_fetcher_leases.py::test_a_slow_visit_keeps_its_lease",
            "tests/store/test_settle.py::test_a_lease_that_was_reaped_is_stale",
        ),
    ),
    "F05": (
        "Redis is killed and comes back: crawling goes on at its rate.",
        ("tests/whole/test_deaths.py::test_every_child_may_die", "tests/whole/test_chaos.py::test_chaos"),
    ),
    "F07": (
        "Redis at maxmemory: links are shed by rule and counted, no lease is lost, nothing dies.",
        (
            "tests/whole/test_memory.py::test_a_full_redis_sheds_links_and_nothing_else",
            "tests/store/test_settle.py::test_a_settle_succeeds_whole_at_maxmemory",
        ),
    ),
    "F08": (
        "A process is killed with a URL in hand: the URL is given out again.",
        (
            "tests/whole/test_deaths.py::test_every_child_may_die",
            "tests/store/test_beat.py::test_a_new_instance_takes_over_and_its_earlier_leases_return",
        ),
    ),
    "F10": (
        "A page that ends its parsers goes to the dead letters, with its reason.",
        ("tests/whole/test_poison.py::test_a_crawl_outlives_a_page_that_hangs_its_parsers",),
    ),
    "F11": (
        "A crawl that goes on fetches no page again; a state that is another's is refused in words.",
        (
            "tests/whole/test_documentation.py::test_a_stopped_crawl_goes_on_where_it_was",
            "tests/store/test_connection.py::test_another_crawl_is_refused_in_words",
        ),
    ),
    "F13": (
        "A pause outlives restarts.",
        ("tests/whole/test_commands.py::test_pause_resume_drain",),
    ),
    "F14": (
        "An unclean stop at any moment loses nothing: the counters add up.",
        (
            "tests/store/test_frontier_machine.py::"
            "test_nothing_is_lost_ready_means_workable_and_the_gap_holds",
            "tests/whole/test_chaos.py::test_chaos",
        ),
    ),
    "F16": (
        "A crawl whose queues are empty starts again, and ends.",
        ("tests/whole/test_empty_start.py::test_a_finished_crawl_starts_again_and_ends",),
    ),
    "F17": (
        "With a million URLs queued the first is leased as soon as Redis has loaded.",
        ("tests/store/test_large_restart.py::test_a_million_urls_are_no_reason_to_wait",),
    ),
    "F19": (
        "Domains that are done leave little behind, and of a known size.",
        ("tests/store/test_large_restart.py::test_domains_that_are_done_leave_little_behind",),
    ),
    "F20": (
        "What is known of URLs seen has a stated size.",
        (
            "tests/store/test_seen_filter.py::test_a_filter_is_no_larger_than_its_layers",
            "tests/rules/test_seen.py::test_every_plan_adds_up",
        ),
    ),
    "F22": (
        "Many hosts at one address are asked no more than that address bears.",
        (
            "tests/store/test_addresses.py::test_no_more_a_second_than_an_address_bears",
            "tests/store/test_addresses.py::test_no_more_at_once_than_an_address_bears",
        ),
    ),
    "F23": (
        "Many processes, one host: its delay holds at the server.",
        (
            "tests/store/test_frontier_machine.py::"
            "test_nothing_is_lost_ready_means_workable_and_the_gap_holds",
            "tests/whole/test_miniature_web.py::test_the_delay_is_kept",
        ),
    ),
    "F25": (
        "A look at the node costs the same whatever is queued.",
        ("tests/store/test_closeup.py::test_a_look_costs_the_same_at_a_million_urls",),
    ),
    "F26": (
        "An excluded domain meets no request, by whatever way.",
        (
            "tests/whole/test_commands.py::test_exclude_and_include",
            "tests/whole/test_exclusion_list.py::test_a_list_takes_effect_on_a_running_node",
        ),
    ),
    "F28": (
        "Hosts that must wait hold up nobody.",
        ("tests/store/test_fairness.py::test_a_crowd_of_slow_sites_does_not_stop_the_fast_ones",),
    ),
    "W01": (
        "A record that is cut off is noticed, and its place named.",
        ("tests/store/test_archive_check.py::test_a_cut_member_is_noticed_and_located",),
    ),
    "W02": (
        "A full disk leaves whole records only.",
        ("tests/store/test_archive.py::test_a_real_full_file_system",),
    ),
    "W04": (
        "Body and headers agree about how it is coded.",
        ("tests/store/test_warc.py::test_raw_body_with_its_coding_but_without_transfer_coding",),
    ),
    "W05": (
        "No header can start another, or another body.",
        (
            "tests/store/test_warc.py::test_a_header_value_cannot_start_another_header",
            "tests/store/test_warc.py::test_no_field_of_ours_can_start_another",
        ),
    ),
    "W07": (
        "The status line is one that all readers take.",
        ("tests/store/test_warc.py::test_the_protocol_stands_beside_a_status_line_that_all_readers_take",),
    ),
    "W08": (
        "No file is empty, each can be read alone.",
        (
            "tests/store/test_archive.py::test_nothing_to_write_makes_no_file",
            "tests/store/test_archive.py::test_files_rotate_and_each_is_whole",
        ),
    ),
    "W10": (
        "Bad bytes in a URL are encoded; a record without a usable URL is skipped and counted.",
        (
            "tests/store/test_warc.py::test_bad_bytes_in_a_url_are_encoded",
            "tests/store/test_archive_check.py::test_a_record_that_is_no_use_is_skipped_and_counted",
        ),
    ),
    "W11": (
        "One member a record: any of them can be read by itself.",
        ("tests/store/test_archive.py::test_each_record_is_a_member_that_can_be_read_alone",),
    ),
    "W13": (
        "A crawl never takes over another's state: it is refused in words.",
        (
            "tests/whole/test_bad_input.py::test_the_redis_of_another_crawl",
            "tests/whole/test_bad_input.py::test_the_folder_of_another_crawl",
        ),
    ),
    "W14": (
        "Nothing broken is published at rotation.",
        (
            "tests/store/test_archive.py::test_files_rotate_and_each_is_whole",
            "tests/store/test_archive.py::test_a_file_that_changed_under_us_is_not_published",
        ),
    ),
}


def missing_tests() -> list[str]:
    """Tests that the table names and that are not there."""
    named = sorted({test for _, tests in CASES.values() for test in tests})
    return [test for test in named if not _exists(*test.split("::"))]


def _exists(file: str, name: str) -> bool:
    path = REPO / file
    if not path.is_file():
        return False
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == name for each in tree.body
    )


def render() -> str:
    """The table in Markdown."""
    rows = [
        (case, words, "<br>".join(f"`{test.removeprefix('tests/').replace('::', '` `')}`" for test in tests))
        for case, (words, tests) in CASES.items()
    ]
    return table(("case", "what holds", "test"), rows)


def part(text: str, mark: str) -> str:
    """What stands between the marks of ``mark`` in a document."""
    return text.partition(f"<!-- soak {mark} -->")[2].partition(f"<!-- /soak {mark} -->")[0].strip()


def main() -> int:
    into_document(PAGE, MARK, render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
