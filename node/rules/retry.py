"""Retries are load: whether one is granted, and how long it waits.

Two budgets of a tenth of the first tries each, the domain's and the node's, and none at all while more
than a fifth of the node's first tries fail: then more requests are the last thing that helps. Hosts that
can't be reached at all don't count there: they have a breaker of their own (rules/pace.py), and a seed
list may be full of them. The settle script does this arithmetic inside Redis; a test ties the two.
Whole numbers: tokens in tenths of a retry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DOMAIN_START, DOMAIN_MAX = 20, 100
"""A domain has two retries to begin with, and saves ten at most."""
NODE_START, NODE_MAX = 1_000, 10_000
"""The node: a hundred and a thousand."""
COST = 10
"""What a first try adds is one token, so retries are a tenth of first tries."""
WINDOW = 1_000
"""First tries over which failures are counted; then both counts are halved."""
WINDOW_LEAST = 50
"""First tries before their share is judged."""
FAILING_PART = 5
"""Failing: more than one in five."""


class Grant(StrEnum):
    """Whether a retry is granted, or why not."""

    YES = "yes"
    DOMAIN = "domain"
    NODE = "node"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """The node's tokens, and its first tries of late: how many, and how many of them failed."""

    tokens: int = NODE_START
    first_tries: int = 0
    failed: int = 0


def after_visit(
    domain_tokens: int, node: NodeBudget, *, first_try: bool, sent: bool, wanted: bool, dead: bool
) -> tuple[int, NodeBudget, Grant | None]:
    """Both budgets after a visit, and the answer if a retry was ``wanted``.

    ``dead``: nothing answered, which the breaker sees to.
    """
    tokens, tries, failed = node.tokens, node.first_tries, node.failed
    if first_try and sent:
        domain_tokens = min(DOMAIN_MAX, domain_tokens + 1)
        tokens = min(NODE_MAX, tokens + 1)
        if tries >= WINDOW:
            tries, failed = tries // 2, failed // 2
        if not dead:
            tries += 1
            failed += int(wanted)
    grant = None
    if wanted:
        if tries >= WINDOW_LEAST and failed * FAILING_PART > tries:
            grant = Grant.FAILING
        elif domain_tokens < COST:
            grant = Grant.DOMAIN
        elif tokens < COST:
            grant = Grant.NODE
        else:
            grant = Grant.YES
            domain_tokens -= COST
            tokens -= COST
    return domain_tokens, NodeBudget(tokens, tries, failed), grant


def wait_ms(tries: int, base_delay_ms: float, jitter: float) -> int:
    """Exponential back-off with full jitter: up to base, 2 × base, 4 × base ...

    ``jitter`` in 0..1. The domain's own delay comes on top: a retry is admitted like a first try.
    """
    return int(max(1_000.0, base_delay_ms) * 2.0**tries * jitter)
