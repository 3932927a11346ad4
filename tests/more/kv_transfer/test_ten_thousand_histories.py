"""Ten thousand random histories in which loads take 0 to 20 steps: every wait ends."""

import pytest
from support.engine.random_histories import TIERED, run_tiered

PORTION = 100


@pytest.mark.parametrize(
    "portion", [0, *(pytest.param(portion, marks=pytest.mark.slow) for portion in range(1, 15))]
)
@pytest.mark.parametrize("flavour", TIERED)
def test_every_wait_ends_in_ten_thousand_histories(flavour: str, portion: int):
    for role in ("", "kv_producer", "kv_consumer"):
        run_tiered(flavour, range(PORTION * portion, PORTION * (portion + 1)), role)
