"""The project's own tools: the scripts and the check of the documents."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.documents import broken_links

SCRIPTS = sorted(path for path in (REPO / "scripts").iterdir() if os.access(path, os.X_OK))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_explains_itself(script: Path) -> None:
    """Every script answers --help with its usage, and does nothing else."""
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.startswith(f"Usage: scripts/{script.name}")
    assert done.stderr == ""


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    """A link to a missing file or heading is reported; good ones, code and the outside are not."""
    (tmp_path / "other.md").write_text("# Other\n\n## The same\n\n## The same\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# A page: with `code`, and dots …\n"
        "[good](other.md) [heading](other.md#the-same-1) [own](#a-page-with-code-and-dots-)\n"
        "[root](/page.md)\n"
        "[outside](https://example.org/gone) `[code](gone.md)`\n"
        "```\n[fenced](gone.md)\n```\n"
        "[gone](gone.md) ![picture](gone.png) [no heading](other.md#third)\n"
        "[reference]: gone-too.md\n"
    )
    assert list(broken_links(page, tmp_path)) == [
        "gone.md (no such file)",
        "gone.png (no such file)",
        "other.md#third (no such heading)",
        "gone-too.md (no such file)",
    ]


def test_no_document_has_a_broken_link() -> None:
    """What our documents point to is there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents"], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
