"""The scheduling rule: running first, then waiting in order, under one token budget."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output, prompt

from minivllm.errors import RequestTooLargeError


def plan_of(engine: WatchedEngine) -> list[tuple[str, int, str]]:
    """Sequence, number of tokens and kind of each item of the last step."""
    return [(item.seq_id, item.num_tokens, item.kind) for item in engine.fold.scheduled]


class TestTokenBudget:
    def test_short_prompts_are_scheduled_whole_in_order_of_arrival_while_slots_last(self):
        engine = WatchedEngine(max_num_seqs=3)
        for i in range(4):
            engine.add(f"r{i}", prompt(5, first=7 * i))
        engine.step()
        assert plan_of(engine) == [(f"r{i}.0", 5, "prefill") for i in range(3)]
        assert engine.fold.sequences["r3.0"].deferred == ("max_num_seqs", 1, 0)

    def test_running_sequences_come_first_and_several_prompts_share_the_rest(self):
        # nano-vllm #73: prefill first starves decodes while any prompt can be admitted. It also
        # chunks only the first sequence of a batch.
        engine = WatchedEngine(max_num_batched_tokens=10)
        engine.add("a", prompt(4), max_tokens=10)
        engine.step()
        engine.add("b", prompt(16, first=50))
        engine.add("c", prompt(16, first=20))
        plans = [(engine.step(), plan_of(engine))[1] for _ in range(3)]
        decode = ("a.0", 1, "decode")
        assert plans == [
            [decode, ("b.0", 9, "prefill")],
            [decode, ("b.0", 7, "prefill"), ("c.0", 2, "prefill")],
            [decode, ("b.0", 1, "decode"), ("c.0", 8, "prefill")],
        ]


class TestPriority:
    def test_lower_numbers_go_first_and_equal_ones_by_arrival(self):
        engine = WatchedEngine(scheduling_policy="priority", max_num_seqs=1)
        # "10" arrived before "9": arrival order is a number, not text.
        for request_id, priority in (("a", 2), ("10", 0), ("c", 1), ("9", 0)):
            engine.add(request_id, prompt(3), max_tokens=1, priority=priority)
        assert engine.fold.waiting == ["10.0", "9.0", "c.0", "a.0"]
        engine.run()
        assert list(engine.outputs) == ["10", "9", "c", "a"]


class TestTheDoor:
    def test_a_request_that_can_never_fit_is_refused_and_the_others_go_on(self):
        # vLLM #39734: such a request waits for ever, and so does everyone behind it.
        engine = WatchedEngine(num_blocks=4, max_model_len=40)
        # 16 tokens are computed, the whole pool; the 17th is only sampled.
        engine.add("fits", prompt(8), max_tokens=9)
        with pytest.raises(
            RequestTooLargeError, match=r"needs up to 5 KV cache blocks.*the cache has 4"
        ):
            engine.add("never", prompt(8), max_tokens=10)
        # The numbers add up where the model's length cuts them, and the option is named.
        cut = r"8 prompt and 90 output tokens, cut at max_model_len 40.*--num-gpu-blocks-override"
        with pytest.raises(RequestTooLargeError, match=cut):
            engine.add("cut", prompt(8), max_tokens=90)
        engine.run()
        assert engine.token_ids("fits") == expected_output(prompt(8), 9)
