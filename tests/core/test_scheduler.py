"""The scheduling rule: running first, then waiting in order, under one token budget."""

from support.engine.engine_fakes import WatchedEngine, prompt


def test_running_sequences_come_first_and_several_prompts_share_the_rest():
    # nano-vllm #73: prefill first starves decodes while any prompt can be admitted. It also
    # chunks only the first sequence of a batch.
    engine = WatchedEngine(max_num_batched_tokens=10)
    engine.add("a", prompt(4), max_tokens=10)
    engine.step()
    engine.add("b", prompt(16, first=50))
    engine.add("c", prompt(16, first=20))
    plans = []
    for _ in range(3):
        engine.step()
        plans.append([(it.seq_id, it.num_tokens, it.kind) for it in engine.fold.scheduled])
    decode = ("a.0", 1, "decode")
    assert plans == [
        [decode, ("b.0", 9, "prefill")],
        [decode, ("b.0", 7, "prefill"), ("c.0", 2, "prefill")],
        [decode, ("b.0", 1, "decode"), ("c.0", 8, "prefill")],
    ]


def test_lower_numbers_go_first_and_equal_ones_by_arrival():
    engine = WatchedEngine(scheduling_policy="priority", max_num_seqs=1)
    # "10" arrived before "9": arrival order is a number, not text.
    for request_id, priority in (("a", 2), ("10", 0), ("c", 1), ("9", 0)):
        engine.add(request_id, prompt(3), max_tokens=1, priority=priority)
    assert engine.fold.waiting == ["10.0", "9.0", "c.0", "a.0"]
    engine.run()
    assert list(engine.outputs) == ["10", "9", "c", "a"]
