"""Why one run was faster: the cause is read from its options and counts."""

import pytest
from msgspec import structs
from support.tui.memory_recording import MemoryRecording

from minivllm.events.fold import Fold
from minivllm.tui.answers.verdict import verdict, why_faster


@pytest.mark.parametrize(
    ("options", "counts", "cause"),
    [
        ({"kv_cache_allocator": "contiguous"}, {}, "kept 8 blocks reserved for each request, so"),
        ({"num_blocks": 11}, {"prefix_cache_hits": -3}, "11 blocks and forgot 3 tokens, which"),
        ({"batching": "sequential", "kv_cache_allocator": "contiguous"}, {}, "one request after"),
        ({"batching": "static"}, {}, "waited until the whole batch had ended"),
        ({}, {"num_preemptions": 3}, "preempted 3 times"),
        ({"num_blocks": 11}, {"num_preemptions": 3}, "requests waited for them, and 3 more pre"),
        ({}, {"external_prefix_cache_hits": -3}, "computed 3 tokens again, which"),
        ({}, {"external_prefix_cache_hits": 3}, "loaded 3 tokens, which took longer"),
        ({}, {}, "took 1 step"),
    ],
)
def test_the_cause_names_the_slower_side(options, counts, cause, memory_pressure) -> None:
    header = structs.replace(memory_pressure.header, max_model_len=32, block_size=4, num_blocks=13)
    fast = Fold(structs.replace(header, config={}))
    size = options.get("num_blocks", header.num_blocks)
    slow = Fold(structs.replace(header, config=options, num_blocks=size))
    slow.step = 1
    for name, count in counts.items():
        setattr(slow.counters, name, count)
    one, two = why_faster(slow, fast, 2.0, "AB"), why_faster(fast, slow, 0.5, "ab")
    assert cause in one and "A" in one and "B " not in one.split(",")[0]
    assert cause in two and two == one.replace("A ", "b ").replace("A,", "b,").replace("B ", "a ")
    assert why_faster(fast, fast, 2.0, "AB").startswith("both took 0 steps, so only the time")
    assert options or counts or why_faster(fast, slow, 2.0, "AB").endswith("shorter ones")
    assert "at once" not in one or f"only {header.num_usable_blocks // 8} fitted" in one


def test_the_verdict_on_two_recordings_names_the_faster_side_or_says_how_near_they_were(stage, ask):
    def recorded(tick: float, **options: int) -> MemoryRecording:
        run = stage([ask("r0", "one two", "a b c"), ask("r1", "three", "d e f")], **options).run()
        events = [structs.replace(event, t=tick * event.step) for event in run.events]
        return MemoryRecording(structs.replace(run.header, clock="monotonic"), events)

    slow, fast, near = recorded(1.0, max_num_seqs=1), recorded(1.0), recorded(1.01)
    assert verdict(slow, fast) == "B won: A runs at most 1 sequence at once."
    assert verdict(fast, slow).startswith("A won: B runs at most 1 sequence")
    said = f"Nobody won: A took {fast.all[-1].t:.2f} s and B {near.all[-1].t:.2f}"
    assert verdict(fast, near).startswith(said)
    fast.all, fast._head, fast._num_folded = fast.all[: len(fast.all) // 2], None, 0
    assert verdict(slow, fast) == "", "one of them has not ended"
