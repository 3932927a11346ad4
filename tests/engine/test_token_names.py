"""Each token id gets its text once, before its first use."""

import pytest
from support.engine import engine_fakes

from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.sampling_params import SamplingParams

ids = engine_fakes.FakeTokenizer().encode


class NoText(engine_fakes.FakeTokenizer):
    def piece(self, token_id: int) -> str:
        raise RuntimeError("The tokenizer panicked.")


def ask(engine: LLMEngine, name: str, prompt: list[int]) -> None:
    engine.add_request(name, {"prompt_token_ids": prompt}, SamplingParams(max_tokens=6))


def test_a_prompt_is_named_in_one_event_right_before_it_arrives():
    engine = engine_fakes.WatchedEngine()
    engine.add("a", [*ids("to be or"), engine_fakes.EOS])
    engine.add("b", ids("robe to"))
    named, arrived, other = engine.events
    assert (type(arrived), type(other)) == (ev.RequestArrived, ev.RequestArrived)
    assert list(named.pieces.values()) == ["t", "o", " ", "b", "e", "r", "<eos>"]
    assert engine.fold.token_pieces == named.pieces, "b brings no new token"


@pytest.mark.parametrize("inspects_first", [True, False])
def test_a_view_that_starts_late_has_the_words_of_all_unfinished_requests(inspects_first):
    engine = engine_fakes.fake_engine()
    ask(engine, "over", [70])
    engine_fakes.run_to_the_end(engine)
    ask(engine, "a", ids("here"))
    engine.step()
    if not inspects_first:
        engine.subscribe(lambda event: None)
    fold = Fold(engine.log_header(), engine.inspect())
    engine.subscribe(fold.apply)
    assert set(ids("here")) < set(fold.token_pieces) and 70 not in fold.token_pieces
    ask(engine, "b", ids("new words"))
    while engine.has_unfinished_requests():
        engine.step()
        assert fold.state == engine.inspect()
    assert fold.token_pieces[ids("w")[0]] == "w"


def test_without_a_listener_no_token_is_named():
    engine = engine_fakes.fake_engine(tokenizer=NoText())
    ask(engine, "a", ids("quiet"))
    engine_fakes.run_to_the_end(engine)
    assert engine.core.names.pieces == {}


def test_a_token_whose_text_fails_is_empty_and_its_request_goes_on():
    engine = engine_fakes.fake_engine(tokenizer=NoText())
    events: list[ev.Event] = []
    engine.subscribe(events.append)
    ask(engine, "a", ids("ab"))
    engine_fakes.run_to_the_end(engine)
    assert type(events[0]) is ev.TokensNamed and set(events[0].pieces.values()) == {""}
    assert sum(type(event) is ev.RequestFinished for event in events) == 1
