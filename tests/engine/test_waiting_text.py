"""Text that nobody reads before the end waits: it is decoded once, and it is the same text."""

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer, expected_output

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.types import Event
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

PROMPT = [1, 2, 3]
LENGTH = 12


class CountingTokenizer(FakeTokenizer):
    def __init__(self) -> None:
        self.num_decodings = 0
        self.sick: int | None = None

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        if self.sick in ids:
            raise RuntimeError("no text")
        self.num_decodings += 1
        return super().decode(ids, skip_special_tokens)


@pytest.fixture
def tokenizer() -> CountingTokenizer:
    return CountingTokenizer()


@pytest.fixture
def engine(tokenizer: CountingTokenizer) -> LLMEngine:
    config = EngineConfig(
        model="fake", block_size=4, max_num_seqs=8, max_num_batched_tokens=64, check_invariants=True
    )
    return LLMEngine(config, FakeRunner(100, 4), tokenizer, clock=VirtualClock())


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


def text_of(token_ids: list[int]) -> str:
    return FakeTokenizer().decode(token_ids)


EXPECTED = text_of(expected_output(PROMPT, LENGTH))


def watch(engine: LLMEngine) -> tuple[list[Event], object]:
    events: list[Event] = []
    return events, engine.subscribe(events.append)


def test_nothing_is_decoded_before_the_end_and_then_everything_at_once(engine, tokenizer) -> None:
    add(engine)
    assert run(engine, LENGTH - 1) == {}
    assert tokenizer.num_decodings == 0
    assert run(engine, 1)["r"].outputs[0].text == EXPECTED
    assert tokenizer.num_decodings == 1


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"n": 3},
        {"stop": EXPECTED[5:7]},
        {"logprobs": 1},
        {"n": 2, "best_of": 3},
        {"use_beam_search": True, "n": 2},
    ],
    ids=str,
)
def test_an_output_at_the_end_is_the_last_of_the_outputs_of_each_step(engine, params) -> None:
    params = {**params, **({"beam_width": 2} if "use_beam_search" in params else {})}
    add(engine, "steps", "cumulative", **params)
    add(engine, "end", **params)
    outputs = run(engine)
    assert [one.text for one in outputs["steps"].outputs] == [
        one.text for one in outputs["end"].outputs
    ]
    assert outputs["end"].outputs == outputs["steps"].outputs


@pytest.mark.parametrize("joins", [1, 5, LENGTH - 1])
def test_a_watcher_that_joins_late_sees_the_text_so_far_and_then_that_of_each_token(
    engine, joins: int
) -> None:
    add(engine)
    run(engine, joins)
    so_far = engine.inspect().sequences["r.0"].text
    assert so_far == EXPECTED[:joins]
    events, stop = watch(engine)
    run(engine, 1)
    stop()
    run(engine, 2)  # unwatched for two steps
    again = engine.inspect().sequences
    events_again, _ = watch(engine)
    output = run(engine)
    seen = [event.text for event in events if isinstance(event, ev.TokenSampled)]
    assert so_far + "".join(seen) == EXPECTED[: joins + 1]
    if again:
        seen = [event.text for event in events_again if isinstance(event, ev.TokenSampled)]
        assert again["r.0"].text + "".join(seen) == EXPECTED
        assert output["r"].outputs[0].text == EXPECTED


@pytest.mark.parametrize("inspected", [False, True], ids=["unseen", "inspected"])
def test_a_token_that_has_no_text_fails_its_request_alone_and_inspecting_it_is_safe(
    engine, tokenizer, inspected
) -> None:
    tokenizer.sick = expected_output(PROMPT, LENGTH)[4]
    add(engine)
    engine.add_request(
        "good", {"prompt_token_ids": [5]}, SamplingParams(temperature=0, max_tokens=LENGTH)
    )
    assert tokenizer.sick not in expected_output([5], LENGTH)
    run(engine, 7)
    if inspected:
        assert engine.inspect().sequences["r.0"].output_token_ids == expected_output(PROMPT, 7)
    outputs = run(engine)
    assert "could not be turned into text" in outputs["r"].error
    assert outputs["good"].error is None
    assert engine._stepper.output_processor._outputs == {}
