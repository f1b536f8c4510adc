"""What a process carries though it never uses it: memory, nine times a node, and time at each start."""

from __future__ import annotations

import subprocess
import sys


def test_a_fetcher_does_not_carry_what_reads_pages() -> None:
    """The detector of encodings alone takes 27 MB with its models; reading pages is the parsers' work."""
    readers = "'chardet', 'selectolax', 'node.rules.charset', 'node.rules.html'"
    words = f"import sys, node.work.fetcher; print(*({{{readers}}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
