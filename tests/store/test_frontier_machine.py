"""I1 to I4 under everything that can happen: hypothesis drives the real scripts on a real Redis
against the model, with crashes of fetchers and parsers, restarts and callers whose clocks lag.

``MILLIARDE_SEED`` chooses the run (else one that is fixed in CI and new elsewhere; it is printed when a
test fails), ``MILLIARDE_SOAK`` the number of histories.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.redis_server import RedisServer
from tests.store.frontier_actors import Actors
from tests.store.frontier_steps import CHOICES, OPERATIONS

HISTORIES = int(os.environ.get("MILLIARDE_SOAK") or 40)
STEPS = 150
CI = os.environ.get("CI") == "true"
SEED = int(os.environ.get("MILLIARDE_SEED") or (2026 if CI else random.randrange(10**6)))


class FrontierMachine(RuleBasedStateMachine):
    """Histories, and the comparison after each of their steps."""

    server: RedisServer
    history: Actors | None = None

    @initialize(delay_s=st.sampled_from([0.0, 0.0, 2.0, 2.0, 30.0]))
    def start(self, delay_s: float) -> None:
        self.history = Actors(self.server, delay_s)

    @rule(dice=st.randoms(use_true_random=True))
    def something_happens(self, dice: random.Random) -> None:
        what = dice.choice(CHOICES)
        arguments = {name: draw(dice) for name, draw in OPERATIONS[what].items()}
        note(f"    {what} {arguments}")
        getattr(self.history, what)(**arguments)

    @invariant()
    def redis_is_as_the_model_says(self) -> None:
        if self.history is not None:
            self.history.compare()

    def teardown(self) -> None:
        if self.history is not None:
            self.history.close()


@pytest.mark.timeout(120 if CI else 3_600)
def test_nothing_is_lost_ready_means_workable_and_the_gap_holds(redis_server: RedisServer) -> None:
    """I1 to I4 hold after every step of any history."""
    print(f"MILLIARDE_SEED={SEED}")

    class Machine(FrontierMachine):
        server = redis_server

    chosen = settings(
        max_examples=HISTORIES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        # a history takes minutes to shrink; CI prints it as it is
        phases=[Phase.generate] if CI else [Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(with_seed(SEED)(Machine), settings=chosen)
