"""Asking before what can't be undone."""

from __future__ import annotations

import sys

from deploy.errors import RefusedError


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if the operator says yes, here or by ``--yes``. Raises ``RefusedError``."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError(f"{question} Nobody is here to answer; --yes says it beforehand")
    sys.stderr.write(f"{question} Type 'yes' to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise RefusedError("nothing was done")
