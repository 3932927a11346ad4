"""The draft model's own cache: mirrors follow their sequences, and give their blocks back."""

import dataclasses

import pytest
from support.engine.engine_fakes import run_to_the_end

from minivllm.config import EngineConfig
from minivllm.core.request import Request, Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.errors import SamplingError
from minivllm.events import types as ev
from minivllm.sampling_params import SamplingParams
from minivllm.speculation.draft_model import DraftModelProposer, _Mirror

CONFIG = EngineConfig(
    model="tiny-random", device="cpu", dtype="float32", attention_backend="torch",
    num_gpu_blocks_override=24, block_size=4, max_model_len=80, max_num_batched_tokens=16,
    max_num_seqs=4, check_invariants=True,
    speculative_config={
        "method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 3,
    },
)  # fmt: skip
PLAIN = dataclasses.replace(CONFIG, speculative_config=None)


def proposer_of(engine: LLMEngine) -> DraftModelProposer:
    return engine.core.scheduler._drafter._proposer._proposer  # inside `GrammarProposer`


def finish(engine: LLMEngine) -> dict[str, list[int]]:
    ended = run_to_the_end(engine)
    return {name: output.outputs[0].token_ids for name, output in ended.items()}


def answers(engine: LLMEngine, params: SamplingParams, *prompts: list[int]) -> dict[str, list[int]]:
    for number, prompt in enumerate(prompts):
        engine.add_request(f"r{number}", {"prompt_token_ids": prompt}, params)
    return finish(engine)


def test_a_bad_draft_model_changes_no_token_and_its_rejected_drafts_leave_no_trace(tiny) -> None:
    params = SamplingParams(temperature=1.0, max_tokens=40, seed=4)
    engines = (LLMEngine.from_model(config, tiny) for config in (PLAIN, CONFIG))
    prompts = [[5, 6, 7, 8 + i] * 5 for i in range(2)]
    plain, engine = answers(next(engines), params, *prompts), next(engines)
    runner = proposer_of(engine)._runner
    draw, num_calls = runner.sample_tokens, iter(range(10_000))

    def draw_badly(sequences, logits):
        """Every fifth token is another one, and sometimes there is none."""
        sampled = draw(sequences, logits)
        for token in sampled:
            token.token_id = (token.token_id + (next(num_calls) % 5 == 0)) % 250
        if sampled and next(num_calls) % 7 == 0:
            sampled[0] = SamplingError("It has NaN.", sequences[0].seq_id)
        return sampled

    runner.sample_tokens = draw_badly
    assert answers(engine, params, *prompts) == plain
    counters = engine.inspect().counters
    share = counters.spec_decode_num_accepted_tokens / counters.spec_decode_num_draft_tokens
    assert 0.5 < share < 0.95, "right keys and values draft well even after a rejected draft"


def test_a_mirror_forgets_rejected_drafts_and_computes_its_last_token_again() -> None:
    mirror = _Mirror(Sequence(Request("r", [5, 6, 7], SamplingParams()), 0, [5, 6, 7]), slot=0)
    mirror.catch_up([5, 6, 7])
    for drafts, final, num_computed in (
        ([8, 9], [5, 6, 7, 1], 3),  # both were wrong
        ([8, 9], [5, 6, 7, 1, 8, 2], 5),
        ([8, 9], [5, 6, 7, 1, 8, 2, 8, 9, 4], 7),  # 9 was not computed
        # The sequence went on alone for three steps, after three wrong drafts.
        ([3, 3, 3], [5, 6, 7, 1, 8, 2, 8, 9, 4, 0, 0, 0, 0], 9),
    ):
        for token_id in drafts:
            mirror.append_token(token_id)
        mirror.num_computed_tokens = mirror.num_tokens - 1
        mirror.catch_up(final)
        assert (mirror.token_ids, mirror.num_computed_tokens) == (final, num_computed)


def test_watched_attention_is_that_of_the_last_final_token_and_never_of_a_draft(tiny) -> None:
    def masses(config: EngineConfig) -> dict[int, list[float]]:
        """By the number of tokens that the last one sees."""
        engine, seen, found = LLMEngine.from_model(config, tiny), [], {}
        engine.subscribe(seen.append)
        engine.record_attention_mass(True, "r0.0")
        answers(engine, SamplingParams(temperature=0.0, max_tokens=12), [5, 6, 7] * 3)
        for event in seen:
            if isinstance(event, ev.StepScheduled):
                length = event.num_computed_tokens + event.num_tokens
            elif isinstance(event, ev.AttentionMass):
                found[length] = event.mass
            elif isinstance(event, ev.TokenAttention):
                assert len(event.weights) == length
        return found

    plain = masses(PLAIN)
    drafted = masses(CONFIG)
    assert len(drafted) < len(plain) and drafted.keys() <= plain.keys()
    for length, mass in drafted.items():
        assert mass == pytest.approx(plain[length], abs=1e-5)


def test_ended_sequences_leave_no_mirror_and_no_block(tiny) -> None:
    engine = LLMEngine.from_model(CONFIG, tiny)
    params = SamplingParams(temperature=0.0, max_tokens=8)
    engine.add_request("a", {"prompt_token_ids": [5, 6, 7]}, params)
    engine.add_request("b", {"prompt_token_ids": [5, 6, 7, 8]}, params)
    for _ in range(2):
        engine.step()
    proposer = proposer_of(engine)
    assert len(proposer._mirrors) == 2
    engine.abort_request("a")
    assert len(proposer._mirrors) == 1
    finish(engine)
    assert proposer._mirrors == {} and len(proposer._free_slots) == 4
    assert proposer._manager.pool.num_free_blocks == 24


def test_a_shorter_draft_model_stops_drafting_at_its_limit(tiny) -> None:
    engine = LLMEngine.from_model(CONFIG, tiny)
    proposer_of(engine)._runner.max_model_len = 22
    params = SamplingParams(temperature=0.0, max_tokens=30, ignore_eos=True)
    assert len(answers(engine, params, [5, 6, 7] * 4)["r0"]) == 30
    # 13, 17 and 21 tokens: 3, 3 and 2 drafts, all of them right
    assert engine.inspect().counters.spec_decode_num_draft_tokens == 8
