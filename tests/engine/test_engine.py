"""The engine's door, its stops and what it hands back; a fake model stands in."""

import pytest
from support.engine.engine_fakes import (
    EOS,
    FakeRunner,
    FakeTokenizer,
    WatchedEngine,
    expected_output,
)

from minivllm import errors
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.outputs import SampledToken
from minivllm.sampling_params import RequestOutputKind, SamplingParams


def script(engine: WatchedEngine, tokens: list[int]) -> None:
    """Make the model say `tokens`, one a step (for engines with a single sequence)."""
    said = iter(tokens)
    engine.runner.sample_tokens = lambda sequences, logits: [
        SampledToken(next(said)) for _ in sequences
    ]


def ids(text: str) -> list[int]:
    return [ord(character) - 32 for character in text]


class TestTheDoor:
    """A refused request leaves no trace, and the others go on."""

    @pytest.mark.parametrize(
        "request_id, prompt, params, error, sentence",
        [
            ("x", [], {}, errors.EmptyPromptError, "send at least one token"),
            (
                "x",
                [1] * 50,
                {},
                errors.PromptTooLongError,
                "shorten the prompt to 49 tokens, or use an engine with a larger max_model_len",
            ),
            (
                "x",
                [1, 100],
                {},
                errors.TokenOutOfVocabularyError,
                "prompt_token_ids holds 100.*use 0 to 99",
            ),
            (
                "x",
                [1],
                {"logit_bias": {100: 1.0}},
                errors.TokenOutOfVocabularyError,
                "logit_bias holds 100",
            ),
            (
                "x",
                [1],
                {"stop_token_ids": [5000]},
                errors.TokenOutOfVocabularyError,
                "stop_token_ids holds 5000",
            ),
            (
                "x",
                [1],
                {"stop_token_ids": list(range(99)), "min_tokens": 1},
                errors.InvalidSamplingParamsError,
                "no token that may come before min_tokens",
            ),
            ("a", [1], {}, errors.DuplicateRequestError, "'a' is in use"),
            ("", [1], {}, errors.InvalidRequestError, "non-empty string"),
            ("x", {"prompt": None}, {}, errors.InvalidRequestError, "A prompt is text"),
            ("x", {"text": "hi"}, {}, errors.InvalidRequestError, "A prompt has no field 'text'"),
            (
                "x",
                {"prompt_token_ids": 7},
                {},
                errors.InvalidRequestError,
                "must be a list of whole numbers",
            ),
            ("x", [True], {}, errors.InvalidRequestError, "must be a list of whole numbers"),
            ("x", [1] * 30, {"max_tokens": 19}, errors.RequestTooLargeError, "the cache has 8"),
        ],
    )
    def test_a_bad_request_is_refused_in_one_sentence_and_leaves_no_trace(
        self, request_id, prompt, params, error, sentence
    ):
        engine = WatchedEngine(num_blocks=8, max_model_len=50)
        engine.add("a", [1, 2, 3], max_tokens=6)
        engine.step()
        num_events, state = len(engine.events), engine.engine.inspect()
        as_prompt = prompt if isinstance(prompt, (str, dict)) else {"prompt_token_ids": prompt}
        with pytest.raises(error, match=sentence) as caught:
            engine.engine.add_request(request_id, as_prompt, SamplingParams(**params))
        assert isinstance(caught.value, errors.InvalidRequestError)
        assert "\n" not in str(caught.value)
        assert len(engine.events) == num_events and engine.engine.inspect() == state
        engine.run()
        assert engine.token_ids("a") == expected_output([1, 2, 3], 6)

    def test_a_bare_list_of_ids_is_refused_with_the_field_that_it_belongs_to(self):
        with pytest.raises(errors.InvalidRequestError, match=r"prompt_token_ids.*bare list of ids"):
            WatchedEngine().engine.add_request("x", [1, 2, 3], SamplingParams())

    def test_a_priority_without_the_priority_policy_is_refused_and_not_ignored(self):
        with pytest.raises(errors.InvalidRequestError, match="scheduling_policy='priority'"):
            WatchedEngine().add("a", [1], priority=3)

    def test_a_request_id_can_be_used_again_once_its_request_has_ended(self):
        engine = WatchedEngine()
        for _ in range(2):
            engine.add("same", [1, 2, 3], max_tokens=2)
            engine.run()
        engine.add("same", [1, 2, 3])
        engine.engine.abort_request("same")
        engine.add("same", [1, 2, 3], max_tokens=4)
        engine.run()
        assert engine.token_ids("same") == expected_output([1, 2, 3], 4)

    @pytest.mark.parametrize(
        "options",
        [
            {"block_size": 0},
            {"max_num_batched_tokens": -1},
            {"kv_cache_memory_bytes": 1.5},
            {"gpu_memory_utilization": 1.1},
            {"dtype": "float8"},
            {"device": "tpu"},
            {"scheduling_policy": "lifo"},
            {"max_num_seqs": 100_000_000},
            {"seed": "x"},
            {"enable_prefix_caching": "no"},
            {"model": ""},
        ],
    )
    def test_an_option_out_of_range_is_refused_by_name(self, options):
        with pytest.raises(errors.ConfigError, match=next(iter(options))):
            EngineConfig(**options)


def test_the_fold_equals_the_engine_to_the_last_digit_on_a_clock_that_goes_on():
    engine = LLMEngine(
        EngineConfig(model="fake", block_size=4), FakeRunner(100, 4), FakeTokenizer()
    )
    fold = Fold(engine.log_header())
    engine.subscribe(fold.apply)
    for name in "ab":
        engine.add_request(
            name, {"prompt_token_ids": [1, 2, 3]}, SamplingParams(temperature=0, max_tokens=3)
        )
        assert fold.state == engine.inspect()
    while engine.has_unfinished_requests():
        engine.step()
        assert fold.state == engine.inspect()


class TestStops:
    def test_end_of_sequence_ends_it_and_stays_in_the_tokens_but_not_in_the_text(self):
        engine = WatchedEngine()
        script(engine, [*ids("ok"), EOS])
        engine.add("a", [1])
        output = engine.run()["a"].outputs[0]
        assert (output.text, output.finish_reason, output.stop_reason) == ("ok", "stop", None)
        assert output.token_ids == [*ids("ok"), EOS]

    def test_a_stop_token_id_ends_it_and_is_named_as_the_reason(self):
        engine = WatchedEngine()
        script(engine, ids("abc"))
        engine.add("a", [1], stop_token_ids=ids("zb"))
        output = engine.run()["a"].outputs[0]
        assert (output.token_ids, output.stop_reason, output.finish_reason) == (
            ids("ab"),
            ids("b")[0],
            "stop",
        )

    def test_a_stop_string_over_two_tokens_is_cut_from_the_text_and_kept_in_the_tokens(self):
        engine = WatchedEngine()
        script(engine, ids("one END two"))
        engine.add("a", [1], max_tokens=11, stop=["END"])
        output = engine.run()["a"].outputs[0]
        assert (output.text, output.finish_reason, output.stop_reason) == ("one ", "stop", "END")
        assert output.token_ids == ids("one END")

    def test_text_held_back_for_a_stop_string_appears_when_the_length_ends_it(self):
        engine = WatchedEngine()
        script(engine, ids("oneEN"))
        engine.add("a", [1], max_tokens=5, stop=["END"])
        output = engine.run()["a"].outputs[0]
        assert (output.text, output.finish_reason) == ("oneEN", "length")
        assert [event.text for event in engine.events_of(ev.TextFlushed)] == ["EN"]

    @pytest.mark.parametrize("max_tokens, text", [(7, "one "), (6, "one EN")])
    def test_a_stop_string_in_text_that_only_the_end_decides_counts_as_well(
        self, monkeypatch, max_tokens, text
    ):
        # such a run is text only as a whole
        monkeypatch.setattr(FakeTokenizer, "is_byte_fallback", lambda *_: True)
        engine = WatchedEngine()
        script(engine, ids("one END"))
        engine.add("a", [1], max_tokens=max_tokens, stop=["END"])
        output = engine.run()["a"].outputs[0]
        reasons = ("stop", "END") if max_tokens == 7 else ("length", None)
        assert (output.text, output.finish_reason, output.stop_reason) == (text, *reasons)

    def test_what_the_last_min_tokens_complete_at_the_end_is_passed_over(self, monkeypatch):
        monkeypatch.setattr(FakeTokenizer, "is_byte_fallback", lambda *_: True)
        engine = WatchedEngine()
        script(engine, ids("xEND"))
        engine.add("a", [1], max_tokens=4, min_tokens=4, stop=["END"])
        assert engine.run()["a"].outputs[0].text == "xEND"

    def test_stops_before_min_tokens_do_not_count(self):
        engine = WatchedEngine()
        script(engine, ids("xxxxx"))
        engine.add("a", [1], max_tokens=9, min_tokens=4, stop=["x"])
        # Nor one that the last of them completes: min_tokens come before the stop (as in vLLM).
        assert engine.run()["a"].outputs[0].token_ids == ids("xxxxx")


class TestOutputs:
    def run_with(self, kind: RequestOutputKind) -> list:
        engine = WatchedEngine()
        params = SamplingParams(temperature=0, max_tokens=4, output_kind=kind)
        engine.engine.add_request("a", {"prompt_token_ids": [1, 2]}, params)
        seen = []
        while engine.engine.has_unfinished_requests():
            seen += engine.step()
        return seen

    def test_cumulative_outputs_grow_token_by_token(self):
        lengths = [
            len(output.outputs[0].token_ids)
            for output in self.run_with(RequestOutputKind.CUMULATIVE)
        ]
        assert lengths == [1, 2, 3, 4]

    def test_deltas_add_up_to_the_whole(self):
        deltas = self.run_with(RequestOutputKind.DELTA)
        whole = self.run_with(RequestOutputKind.FINAL_ONLY)
        assert len(deltas) == 4 and len(whole) == 1
        assert "".join(output.outputs[0].text for output in deltas) == whole[0].outputs[0].text
        assert [token_id for output in deltas for token_id in output.outputs[0].token_ids] == whole[
            0
        ].outputs[0].token_ids
        assert [output.finished for output in deltas] == [False, False, False, True]

    def test_the_prompt_comes_back_as_text_when_it_came_as_text(self):
        engine = WatchedEngine()
        engine.engine.add_request("a", "Hi", SamplingParams(max_tokens=1))
        (output,) = engine.step()
        assert (output.prompt, output.prompt_token_ids) == ("Hi", ids("Hi"))

    def test_changing_an_output_changes_nothing_in_the_engine(self):
        engine = WatchedEngine()
        engine.add("a", [1, 2, 3])
        (output,) = engine.step()
        output.prompt_token_ids.append(99)
        output.outputs[0].token_ids.clear()
        engine.run()
        assert engine.token_ids("a") == expected_output([1, 2, 3], 8)
        assert engine.events_of(ev.RequestArrived)[0].prompt_token_ids == [1, 2, 3]


class TestAborts:
    def test_an_aborted_request_gives_its_blocks_back_at_once(self):
        engine = WatchedEngine(num_blocks=8)
        engine.add("a", list(range(20)), max_tokens=4)
        engine.step()
        output = engine.engine.abort_request("a")
        assert output.finished and output.outputs[0].finish_reason == "abort"
        assert len(engine.fold.free_queue) == 8
        engine.compare()

    def test_an_abort_between_two_steps_changes_no_token_of_the_others(self):
        engine = WatchedEngine(num_blocks=6)
        engine.add("a", list(range(9)), max_tokens=8)
        engine.add("b", list(range(9)), max_tokens=8)
        engine.step()
        engine.engine.abort_request("a")
        engine.run()
        assert engine.token_ids("b") == expected_output(list(range(9)), 8)


class TestFailure:
    def test_a_step_that_fails_leaves_a_dead_engine_that_says_so(self):
        engine = WatchedEngine()
        engine.add("a", [1, 2, 3])

        def explode(*args):
            raise ValueError("no more memory")

        engine.runner.execute_model, engine.runner.device_lost = explode, True
        with pytest.raises(ValueError, match="no more memory"):
            engine.engine.step()
        for call in (
            engine.engine.step,
            lambda: engine.engine.add_request("b", "x", SamplingParams()),
        ):
            with pytest.raises(
                errors.EngineDeadError, match=r"no more memory.*build a new LLMEngine"
            ):
                call()
        assert engine.engine.abort_request("a") is None, (
            "whoever cleans up must not be told of it a second time"
        )

    def test_a_broken_invariant_is_told_counted_and_raised(self):
        engine = WatchedEngine()
        engine.add("a", [1, 2, 3])
        engine.step()
        engine.pool.blocks[0].ref_cnt = 2
        with pytest.raises(errors.InvariantError, match="ref_cnt = entries in block tables"):
            engine.engine.step()
        assert engine.fold.counters.invariant_violations == 1
        assert engine.events_of(ev.InvariantViolated)[0].name == "ref_cnt = entries in block tables"
