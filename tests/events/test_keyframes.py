"""Keyframes: bounded, counted memory, and the nearest one before a target."""

import random
from itertools import pairwise

import pytest
from support.engine.random_histories import History

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import _PIECE_OVERHEAD, Keyframes


def test_memory_is_bounded_by_thinning_out_and_the_first_keyframe_stays():
    frames, rng = Keyframes(spacing=100, max_bytes=20_000), random.Random(0)
    offset = 0
    while offset < 50_000:
        if frames.is_due(offset):
            frames.add(offset // 10, offset, [rng.randbytes(100) for _ in range(3)])
        offset += 50
    assert frames.num_bytes <= 20_000
    assert frames.num_bytes == sum(
        len(piece) + _PIECE_OVERHEAD
        for piece in {piece for count in range(5000) for piece in frames.before(count).pieces}
    )
    counts = sorted({frames.before(count).count for count in range(5000)})
    assert counts[0] == 0 and len(counts) == len(frames) > 10
    distances = [b - a for a, b in pairwise(counts)]
    assert max(distances) <= 4 * min(distances), "they are spread evenly enough"


@pytest.mark.parametrize("tiered", [False, True])
def test_a_keyframe_restores_the_whole_fold(tiered: bool):
    history = History("drafts", 3, tiered=tiered)
    for _ in range(40):
        history.act()
    fold = history.engine.fold
    assert not tiered or any(block.hash for block in fold.host_blocks)
    restored = FOLD.restore(fold.header, FOLD.pack(fold), fold)
    assert fold.sequences and restored.state == fold.state
    assert list(restored.history) == list(fold.history)
    assert restored.last_seq == fold.last_seq
