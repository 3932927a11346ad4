"""Random histories of a small engine, against everything that must always hold.

Hypothesis invents arrivals (with samples, beams and salts), aborts, steps, single phases of steps and changes of live
options, on the engine as it is and on the baselines
beside it; pools are tiny, prompts come from a small tree of shared prefixes over two letters, and so collisions, evictions
and preemptions happen all the time. After every
action all invariants are checked, the fold is compared with the engine, and the fake model reads back
every slot that attention would read. At the end everything drains, and the outputs must be those of the
model run alone.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from support.engine.engine_fakes import EOS, WatchedEngine, expected_beams, expected_output

from minivllm.core.beam_search import BeamSearch
from minivllm.core.invariants import check_invariants
from minivllm.errors import ConfigError, InvalidSamplingParamsError, RequestTooLargeError, StepInProgressError

LETTERS = st.integers(0, 1)


def up_to_a_stop(tokens: list[int], stops: list[int]) -> list[int]:
    """With the first stop token as the last."""
    return tokens[: next((i for i, token in enumerate(tokens, 1) if token in stops), len(tokens))]


class EngineMachine(RuleBasedStateMachine):
    """Everything a caller can do, in any order."""

    prompts = Bundle("prompts")
    request_ids = Bundle("request_ids")

    @initialize(
        target=prompts,
        num_blocks=st.integers(2, 10),
        block_size=st.integers(1, 4),
        max_num_seqs=st.integers(1, 4),
        budget=st.integers(1, 12),
        policy=st.sampled_from(["fcfs", "priority"]),
        caching=st.booleans(),
        allocator=st.sampled_from(["paged", "paged", "contiguous"]),
        batching=st.sampled_from(["continuous", "continuous", "static", "sequential"]),
        batch_delay=st.sampled_from([0.0, 0.0, 0.04]),
        chunked=st.booleans(),
    )
    def build(
        self, num_blocks, block_size, max_num_seqs, budget, policy, caching, allocator, batching, batch_delay, chunked
    ):
        # Half of the pool to a sequence, so that a contiguous one holds two and something is left over.
        max_model_len = num_blocks * block_size // 2 + 1 if allocator == "contiguous" else num_blocks * block_size + 1
        self.watched = WatchedEngine(
            num_blocks=num_blocks,
            block_size=block_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget if chunked else max(budget, max_model_len),
            scheduling_policy=policy,
            enable_prefix_caching=caching and allocator == "paged",
            enable_chunked_prefill=chunked,
            kv_cache_allocator=allocator,
            batching=batching,
            batch_delay=batch_delay,
            batch_size=2 if batch_delay else None,
            max_model_len=max_model_len,
            vocab_size=2,
        )
        self.expected: dict[str, list[list[int]]] = {}
        self.with_beams: set[str] = set()
        self.num_added = 0
        return multiple([0], [0, 1])

    @rule(target=prompts, stem=prompts, more=st.lists(LETTERS, min_size=1, max_size=6))
    def grow_a_prompt(self, stem, more):
        return (stem + more)[:40]

    @rule(
        target=request_ids,
        prompt=prompts,
        max_tokens=st.integers(1, 10),
        priority=st.integers(0, 2),
        n=st.integers(1, 3),
        beams=st.booleans(),
        salt=st.sampled_from([None, None, "red", "blue"]),
        stops=st.sampled_from([[], [], [0], list(range(2, 99)), list(range(1, 99))]),
        early_stopping=st.sampled_from([False, True, "never"]),
        length_penalty=st.sampled_from([1.0, 0.0, -2.0, 2.0]),
    )
    def add_request(self, prompt, max_tokens, priority, n, beams, salt, stops, early_stopping, length_penalty):
        limit = self.watched.runner.max_model_len
        if len(prompt) >= limit:
            return multiple()
        request_id = f"r{self.num_added}"
        self.num_added += 1
        beams = beams and n > 1
        of_beams = {"use_beam_search": True, "early_stopping": early_stopping, "length_penalty": length_penalty}
        try:
            ranked = self.watched.config.scheduling_policy == "priority"
            self.watched.add(
                request_id,
                prompt,
                max_tokens=max_tokens,
                priority=priority if ranked else 0,
                n=n,
                cache_salt=salt,
                stop_token_ids=stops,
                **(of_beams if beams else {}),
            )
        except (RequestTooLargeError, InvalidSamplingParamsError):  # more sequences than blocks or slots
            return multiple()
        length = min(max_tokens, limit - len(prompt))
        if beams:
            search = BeamSearch(n, length, frozenset({EOS, *stops}), length_penalty, early_stopping)
            self.expected[request_id] = expected_beams(prompt, search)
            self.with_beams.add(request_id)
        else:
            whole = [expected_output(prompt, length, vocab_size=2, index=i) for i in range(n)]
            self.expected[request_id] = [up_to_a_stop(tokens, stops) for tokens in whole]
        return request_id

    @rule(request_id=consumes(request_ids))
    def abort_a_request(self, request_id):
        if self.watched.engine.next_phase != "schedule":
            if request_id in self.watched.scheduler.requests:
                with pytest.raises(StepInProgressError):
                    self.watched.engine.abort_request(request_id)
                self.watched.compare()
            self.watched.step()  # the rest of the step, which may end the request
        output = self.watched.engine.abort_request(request_id)
        if output is not None:  # it had not finished by itself
            expected = self.expected.pop(request_id)
            if request_id not in self.with_beams:
                for one, tokens in zip(output.outputs, expected, strict=False):
                    assert one.token_ids == tokens[: len(one.token_ids)]
        self.watched.compare()

    @rule(number=st.integers(1, 4))
    def run_steps(self, number):
        for _ in range(number):
            self.watched.step()

    @rule(number=st.integers(1, 7))
    def run_phases(self, number):
        for _ in range(number):
            self.watched.step_phase()

    @rule(name=st.sampled_from(["max_num_seqs", "max_num_batched_tokens"]), value=st.integers(1, 12))
    def set_an_option(self, name, value):
        """Refused exactly if it is over what the engine was built with, or too little for what it has promised."""
        engine, config = self.watched.engine, self.watched.config
        if engine.next_phase != "schedule":
            with pytest.raises(StepInProgressError):
                engine.set_option(name, value)
            self.watched.compare()
            self.watched.step()
        if name == "max_num_seqs":
            least = max((r.params.num_sequences for r in self.watched.scheduler.requests.values()), default=1)
        else:
            least = 1 if config.enable_chunked_prefill else self.watched.runner.max_model_len
        if least <= value <= getattr(config, name):
            engine.set_option(name, value)
            assert getattr(engine.inspect(), name) == value
        else:
            before = engine.inspect()
            with pytest.raises(ConfigError):
                engine.set_option(name, value)
            assert engine.inspect() == before
        self.watched.compare()

    @invariant()
    def every_invariant_holds(self):
        if hasattr(self, "watched"):
            assert check_invariants(self.watched.scheduler) == []

    @invariant()
    def a_contiguous_table_is_one_run(self):
        if hasattr(self, "watched") and self.watched.config.kv_cache_allocator == "contiguous":
            for sequence in self.watched.fold.sequences.values():
                table = sequence.block_table
                assert table == list(range(table[0], table[0] + len(table))) if table else True

    def teardown(self):
        if not hasattr(self, "watched"):
            return
        self.watched.run(max_steps=2_000)
        for request_id, expected in self.expected.items():
            assert [output.token_ids for output in self.watched.outputs[request_id].outputs] == expected
        pool = self.watched.pool
        assert pool.num_free_blocks == len(pool.blocks)
        assert all(block.ref_cnt == 0 for block in pool.blocks)
        assert self.watched.fold.sequences == {} and self.watched.fold.requests == {}


EngineMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestEngineMachine = EngineMachine.TestCase


@pytest.mark.slow
def test_ten_thousand_random_histories_break_nothing():
    run_state_machine_as_test(
        EngineMachine, settings=settings(max_examples=10_000, stateful_step_count=40, deadline=None)
    )
