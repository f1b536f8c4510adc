"""Do the links in our documents lead somewhere? ``python -m tests.documents`` prints those that don't.

Looked at are relative links in all Markdown files that git knows or would add: the file must exist, and
where a link names a heading, the heading must be there. Links to the outside are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it: lower case, punctuation dropped, spaces to hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a document; the second heading of one name gets ``-1``, and so on."""
    seen: dict[str, int] = {}
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = anchor(heading)
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def broken_links(document: Path, root: Path) -> Iterator[str]:
    """The links of ``document`` that lead nowhere, each as ``target (reason)``."""
    text = document.read_text(encoding="utf-8")
    for match in LINK.finditer(CODE.sub("", FENCE.sub("", text))):
        target = match[1] or match[2]
        if OUTSIDE.match(target):
            continue
        name, _, fragment = target.partition("#")
        file = document
        if name:
            file = root / name.lstrip("/") if name.startswith("/") else document.parent / name
            if not file.exists():
                yield f"{target} (no such file)"
                continue
        if fragment and file.suffix == ".md" and fragment not in anchors(file.read_text(encoding="utf-8")):
            yield f"{target} (no such heading)"


def documents(root: Path) -> list[Path]:
    """All Markdown files of the checkout, sorted."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-c", "-o", "--exclude-standard", "*.md"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [root / name for name in sorted(filter(None, listed.split("\0"))) if (root / name).is_file()]


def main() -> int:
    """Print every broken link as ``file: link (reason)``; 1 if there is any."""
    broken = [
        f"{document.relative_to(REPO)}: {link}"
        for document in documents(REPO)
        for link in broken_links(document, REPO)
    ]
    print("\n".join(broken) or f"{len(documents(REPO))} documents, no broken link", file=sys.stderr)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
