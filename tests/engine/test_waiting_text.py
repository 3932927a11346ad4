"""Text that is only read at the end is decoded once, with the same result."""

import pytest
from support.engine.engine_fakes import FakeTokenizer, expected_output, fake_engine

from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

PROMPT = [1, 2, 3]
LENGTH = 12
EXPECTED = FakeTokenizer().decode(expected_output(PROMPT, LENGTH))


class CountingTokenizer(FakeTokenizer):
    num_decodings = 0
    sick: int | None = None

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        if self.sick in ids:
            raise RuntimeError("/secret")
        self.num_decodings += 1
        return super().decode(ids, skip_special_tokens)


@pytest.fixture
def tokenizer() -> CountingTokenizer:
    return CountingTokenizer()


@pytest.fixture
def engine(tokenizer: CountingTokenizer) -> LLMEngine:
    return fake_engine(tokenizer=tokenizer)


def add(engine: LLMEngine, name: str = "r", kind: str = "final_only", **params: object) -> None:
    sampling = SamplingParams(
        temperature=0, max_tokens=LENGTH, output_kind=RequestOutputKind(kind), **params
    )
    engine.add_request(name, {"prompt_token_ids": PROMPT}, sampling)


def run(engine: LLMEngine, most: int = 100) -> dict[str, RequestOutput]:
    """The last output of each request."""
    outputs: dict[str, RequestOutput] = {}
    for _ in range(most):
        outputs |= {output.request_id: output for output in engine.step()}
    return outputs


def test_nothing_is_decoded_before_the_end_and_then_everything_at_once(engine, tokenizer):
    add(engine)
    assert run(engine, LENGTH - 1) == {}
    assert tokenizer.num_decodings == 0
    assert run(engine, 1)["r"].outputs[0].text == EXPECTED
    assert tokenizer.num_decodings == 1


@pytest.mark.parametrize(
    "params",
    [{"n": 3}, {"stop": EXPECTED[5:7]}, {"logprobs": 1}, {"n": 2, "best_of": 3}, {"beam_width": 2}],
    ids=str,
)
def test_a_final_only_output_equals_the_last_cumulative_output(engine, params):
    add(engine, "steps", "cumulative", **params)
    add(engine, "end", **params)
    outputs = run(engine)
    assert outputs["end"].outputs == outputs["steps"].outputs


@pytest.mark.parametrize("joins", [1, 5, LENGTH - 4])
def test_a_late_watcher_gets_the_text_so_far_and_then_each_tokens_text(engine, joins):
    add(engine)
    run(engine, joins)
    for num_steps in (1, 100):
        so_far = engine.inspect().sequences["r.0"].text
        events: list[ev.Event] = []
        stop = engine.subscribe(events.append)
        output = run(engine, num_steps)
        seen = so_far + "".join(part.text for part in events if isinstance(part, ev.TokenSampled))
        assert seen == EXPECTED[: joins + num_steps]
        stop()
        if num_steps == 1:
            run(engine, 2)  # unwatched for two steps
    assert output["r"].outputs[0].text == EXPECTED


@pytest.mark.parametrize(
    "kind, inspected", [("final_only", False), ("final_only", True), ("cumulative", False)]
)
def test_a_text_that_fails_costs_one_request_inspected_or_not(engine, tokenizer, kind, inspected):
    tokenizer.sick = expected_output(PROMPT, LENGTH)[4]
    add(engine, kind=kind)
    good = SamplingParams(temperature=0, max_tokens=LENGTH)
    engine.add_request("good", {"prompt_token_ids": [5]}, good)
    assert tokenizer.sick not in expected_output([5], LENGTH)
    outputs = run(engine, 7)
    if inspected:
        assert engine.inspect().sequences["r.0"].output_token_ids == expected_output(PROMPT, 7)
    outputs |= run(engine)
    assert "could not be turned into text" in outputs["r"].error
    assert "/secret" not in outputs["r"].error
    assert outputs["good"].error is None
    assert outputs["good"].outputs[0].token_ids == expected_output([5], LENGTH)
    assert len(engine.inspect().free_queue) == 100
    assert engine.core.output_processor._outputs == {}
