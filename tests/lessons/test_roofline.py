"""The count of weights that a pass reads, against the weights of the checkpoint."""

from math import log2

import pytest

from minivllm.lessons.shown.measured import measured_kernels, points
from minivllm.lessons.shown.roofline import H100, Point, roofline, weights_per_pass
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.store.model_store import resolve_model


def test_every_matrix_of_the_checkpoint_counts_except_a_lookup_embedding():
    directory = resolve_model("tiny-random")
    matrices = {
        name: tensor.numel() for name, tensor in stream_weights(directory) if tensor.dim() == 2
    }
    looked_up = matrices.pop("model.embed_tokens.weight")
    config = read_model_config(directory)
    assert not config.tie_word_embeddings
    assert looked_up == config.vocab_size * config.hidden_size
    assert weights_per_pass(config) == sum(matrices.values())


def bound_at(operations_per_byte: float) -> float:
    return min(operations_per_byte * H100.bytes_per_second, H100.operations_per_second)


def place_of(sign: str, rows: tuple[str, ...]) -> tuple[float, float]:
    """Read a point back: log2 of the operations per byte and of the trillion operations."""
    (y,) = [y for y, row in enumerate(rows[1:11]) if sign in row[6:]]
    return (rows[1 + y].index(sign, 6) - 6) / 2 - 1, 10 - y * 14 / 9


@pytest.mark.parametrize("at", [0.5, 1, 7.0, 64, 300.0, 1024])
def test_a_point_is_where_its_numbers_say_and_the_roof_is_the_smaller_bound(at: float) -> None:
    rows = roofline(H100, [Point("x", at, bound_at(at))])
    x, y = place_of("x", rows)
    assert abs(x - log2(at)) <= 0.25 and abs(y - log2(bound_at(at) / 1e12)) <= 14 / 18
    assert sum(row[6:].count("·") for row in rows) in (22, 23), "each other column has its roof"
    # A slower kernel is in the same column, below.
    slow = place_of("x", roofline(H100, [Point("x", at, bound_at(at) / 16)]))
    assert slow[0] == x and 4 - 14 / 9 <= y - slow[1] <= 4 + 14 / 9
    assert all(len(row) <= 32 for row in rows), "fits beside the panels of a small terminal"


def test_measured_kernels_are_below_the_roof() -> None:
    measured = measured_kernels()
    speeds = [point.operations_per_second for point in points(measured)]
    assert speeds == sorted(speeds) and len(speeds) == 3
    for point, version in zip(points(measured), measured.ladders[-1].versions, strict=False):
        assert point.operations_per_second <= bound_at(point.operations_per_byte)
        # All versions read the same keys and values, so the rest of the time is proportional.
        seconds = version.microseconds / 1e6
        first = measured.ladders[-1].versions[0]
        assert point.operations_per_second * seconds == pytest.approx(
            speeds[0] * first.microseconds / 1e6, rel=0.01
        )
