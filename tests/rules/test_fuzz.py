"""What the fuzzer asks for holds for arbitrary bytes, too, where there is no fuzzer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import TARGETS


@pytest.mark.parametrize("name", sorted(TARGETS))
@settings(max_examples=150)
@given(data=st.binary(max_size=2_000))
def test_a_target_holds_for_any_bytes(name: str, data: bytes) -> None:
    """No exception escapes what reads the web's input, and its laws hold."""
    TARGETS[name](data)
