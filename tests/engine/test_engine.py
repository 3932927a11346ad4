"""The engine's validation, stops and outputs, with a fake model."""

import pytest
from support.engine.engine_fakes import EOS, FakeTokenizer, WatchedEngine, expected_output

from minivllm import errors
from minivllm.config import EngineConfig
from minivllm.events import types as ev
from minivllm.outputs import Logprob, SampledToken
from minivllm.sampling_params import RequestOutputKind, SamplingParams


def engine_that_says(tokens: list[int], **params: object) -> WatchedEngine:
    """An engine with one request, `a`, for which its model samples `tokens`, one per step."""
    engine, said = WatchedEngine(), iter(tokens)
    engine.runner.draw = lambda sequence: SampledToken(next(said))
    engine.add("a", [1], **params)
    return engine


ids = FakeTokenizer().encode
UNKNOWN_TOKEN, TOO_LARGE = errors.TokenOutOfVocabularyError, errors.RequestTooLargeError
TOO_LONG = "shorten the prompt to 49 tokens, or use an engine with a larger max_model_len"
NO_LIST = "must be a list of whole numbers"


class TestTheDoor:
    """A refused request leaves no trace, and the others continue."""

    @pytest.mark.parametrize(
        "request_id, prompt, params, error, sentence",
        [
            ("x", [], {}, errors.EmptyPromptError, "send a token"),
            ("x", [1] * 50, {}, errors.PromptTooLongError, TOO_LONG),
            ("x", [1, 100], {}, UNKNOWN_TOKEN, "prompt_token_ids contains 100.*use 0 to 99"),
            ("x", [1, -1], {}, UNKNOWN_TOKEN, "prompt_token_ids contains -1"),
            ("x", [1], {"logit_bias": {100: 1.0}}, UNKNOWN_TOKEN, "logit_bias contains 100"),
            ("x", [1], {"stop_token_ids": [5000]}, UNKNOWN_TOKEN, "stop_token_ids contains 5000"),
            ("a", [1], {}, errors.DuplicateRequestError, "'a' is in use"),
            ("", [1], {}, errors.InvalidRequestError, "non-empty string"),
            ("x", {"text": "hi"}, {}, errors.InvalidRequestError, "A prompt has no field 'text'"),
            ("x", {"prompt_token_ids": 7}, {}, errors.InvalidRequestError, NO_LIST),
            ("x", [True], {}, errors.InvalidRequestError, NO_LIST),
            ("x", [1] * 30, {"max_tokens": 4}, TOO_LARGE, "up to 9 KV cache blocks.*cache has 8"),
            ("x", [1] * 30, {"max_tokens": 90}, TOO_LARGE, "90 output tokens, cut at.* 50.*--num-"),
        ],
    )
    def test_a_bad_request_gets_one_sentence(self, request_id, prompt, params, error, sentence):
        engine = WatchedEngine(num_blocks=8, max_model_len=50)
        engine.add("a", [1, 2, 3], max_tokens=30)  # 32 are computed, which just fit
        engine.step()
        num_events, state = len(engine.events), engine.engine.inspect()
        as_prompt = {"prompt_token_ids": prompt} if isinstance(prompt, list) else prompt
        with pytest.raises(error, match=sentence) as caught:
            engine.engine.add_request(request_id, as_prompt, SamplingParams(**params))
        assert isinstance(caught.value, errors.InvalidRequestError)
        assert "\n" not in str(caught.value)
        assert len(engine.events) == num_events and engine.engine.inspect() == state
        engine.run()
        assert engine.token_ids("a") == expected_output([1, 2, 3], 30)

    def test_a_priority_without_the_priority_policy_is_refused_and_not_ignored(self):
        for priority in (3, -1):
            with pytest.raises(errors.InvalidRequestError, match="scheduling_policy='priority'"):
                WatchedEngine().add("a", [1], priority=priority)

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

    def test_an_option_out_of_range_is_refused_by_name(self):
        for name, value in {
            "block_size": 0, "max_num_batched_tokens": -1, "kv_cache_memory_bytes": 1.5,
            "gpu_memory_utilization": 1.1, "dtype": "float8", "max_num_seqs": 100_000_000,
            "seed": "x", "enable_prefix_caching": "no", "model": "",
        }.items():  # fmt: skip
            with pytest.raises(errors.ConfigError, match=name):
                EngineConfig(**{name: value})


class TestStops:
    @pytest.mark.parametrize(
        ("says", "params", "num_tokens", "text", "stop_reason"),
        [
            ([*ids("ok"), EOS, *ids("more")], {}, 3, "ok", None),
            (ids("abc"), {"stop_token_ids": ids("zb")}, 2, "ab", ids("b")[0]),
            (ids("one END two"), {"stop": ["END"]}, 7, "one ", "END"),
            # Stops completed by the last of min_tokens do not count either, as in vLLM.
            (ids("xxxxxxxxx"), {"stop": ["x"], "min_tokens": 4}, 5, "xxxx", "x"),
        ],
        ids=["end of sequence", "token id", "string over three tokens", "min_tokens"],
    )
    def test_the_reason_and_the_tokens_of_a_stop(self, says, params, num_tokens, text, stop_reason):
        engine = engine_that_says(says, max_tokens=11, **params)
        output = engine.run()["a"].outputs[0]
        assert output.token_ids == says[:num_tokens]
        reasons = output.finish_reason, output.stop_reason
        assert (output.text, *reasons) == (text, "stop", stop_reason)

    @pytest.mark.parametrize("max_tokens, text", [(7, "one "), (6, "one EN")])
    def test_a_stop_string_in_text_flushed_at_the_end_counts(self, monkeypatch, max_tokens, text):
        # such a run is text only as a whole
        monkeypatch.setattr(FakeTokenizer, "is_byte_fallback", lambda *_: True)
        engine = engine_that_says(ids("one END"), max_tokens=max_tokens, stop=["END"])
        output = engine.run()["a"].outputs[0]
        reasons = ("stop", "END") if max_tokens == 7 else ("length", None)
        assert (output.text, output.finish_reason, output.stop_reason) == (text, *reasons)

    def test_an_unfinished_character_behind_a_stop_string_is_not_shown(self, monkeypatch):
        decode = FakeTokenizer.decode
        monkeypatch.setattr(
            FakeTokenizer, "decode", lambda *a, **k: decode(*a, **k).replace("~", "D\ufffd")
        )
        engine = engine_that_says(ids("one EN~"), stop=["END"])
        assert engine.run()["a"].outputs[0].text == "one "
        assert engine.events_of(ev.TextFlushed) == []

    def test_an_abort_stays_an_abort_when_its_last_text_completes_a_stop_string(self, monkeypatch):
        monkeypatch.setattr(FakeTokenizer, "is_byte_fallback", lambda *_: True)
        engine = engine_that_says(ids("xEND more"), stop=["END"])
        for _ in range(4):
            engine.step()
        (output,) = engine.engine.abort_request("a").outputs
        assert (output.text, output.finish_reason, output.stop_reason) == ("x", "abort", None)


class TestOutputs:
    def test_a_delta_has_only_samples_with_news_and_only_new_tokens(self):
        engine = WatchedEngine()
        end = expected_output([1, 2], 3, index=1)[-1]
        assert end not in expected_output([1, 2], 6)
        kind = RequestOutputKind.DELTA
        params = {"n": 2, "stop_token_ids": [end], "output_kind": kind, "logprobs": 1}
        engine.add("a", [1, 2], max_tokens=6, **params)
        pieces = []
        while engine.engine.has_unfinished_requests():
            pieces += [piece for output in engine.step() for piece in output.outputs]
        assert [piece.index for piece in pieces] == [0, 1] * 3 + [0] * 3
        assert all(len(new.token_ids) == len(new.text) == len(new.logprobs) == 1 for new in pieces)

    def test_a_special_token_has_its_text_among_the_logprobs(self):
        engine = WatchedEngine()
        engine.runner.draw = lambda sequence: SampledToken(EOS, {EOS: Logprob(-1.0, 1)})
        engine.add("a", [1], logprobs=0)
        (output,) = engine.run()["a"].outputs
        assert (output.text, output.logprobs[0][EOS].decoded_token) == ("", "<eos>")

    def test_changing_an_output_changes_nothing_in_the_engine(self):
        engine = WatchedEngine()
        engine.add("a", [1, 2, 3])
        (output,) = engine.step()
        output.prompt_token_ids.append(99)
        output.outputs[0].token_ids.clear()
        engine.run()
        assert engine.token_ids("a") == expected_output([1, 2, 3], 8)
        assert engine.events_of(ev.RequestArrived)[0].prompt_token_ids == [1, 2, 3]


def test_an_abort_ends_only_the_samples_that_still_run():
    engine = WatchedEngine()
    end = expected_output([1, 2], 3, index=1)[-1]
    engine.add("a", [1, 2], n=2, stop_token_ids=[end])
    for _ in range(4):
        engine.step()
    output = engine.engine.abort_request("a")
    assert [sample.finish_reason for sample in output.outputs] == ["abort", "stop"]
    assert [event.seq_id for event in engine.events_of(ev.RequestAborted)] == ["a.0"]
    engine.compare()


def test_a_broken_invariant_is_emitted_counted_and_raised():
    engine = WatchedEngine()
    engine.add("a", [1, 2, 3])
    engine.step()
    engine.pool.blocks[0].ref_cnt = 2
    with pytest.raises(errors.InvariantError, match="ref_cnt = entries in block tables"):
        engine.engine.step()
    assert engine.fold.counters.invariant_violations == 1
    assert engine.events_of(ev.InvariantViolated)[0].name == "ref_cnt = entries in block tables"
