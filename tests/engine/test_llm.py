"""`LLM`: lists in, lists out, in order; a refused prompt leaves nothing behind."""

import pytest

from minivllm import LLM, SamplingParams, errors


@pytest.fixture(scope="module")
def llm(tiny_random_path):
    return LLM(
        model="tiny-random", num_gpu_blocks_override=64, max_model_len=256, check_invariants=True
    )


GREEDY = SamplingParams(temperature=0, max_tokens=5)


def test_outputs_come_in_the_order_of_the_prompts(llm):
    params = [
        SamplingParams(temperature=0, max_tokens=length, ignore_eos=True) for length in (9, 1, 5)
    ]
    outputs = llm.generate(["one", "two", "three"], params, use_tqdm=False)
    assert [output.prompt for output in outputs] == ["one", "two", "three"]
    assert [len(output.outputs[0].token_ids) for output in outputs] == [9, 1, 5]


def test_a_refused_prompt_withdraws_the_queued_ones(llm):
    with pytest.raises(errors.PromptTooLongError):
        llm.generate(["fine", "too long " * 100], GREEDY, use_tqdm=False)
    assert not llm.llm_engine.has_unfinished_requests()
    state = llm.llm_engine.inspect()
    assert (state.sequences, len(state.free_queue)) == ({}, 64)


def test_one_conversation_or_several_can_be_answered(llm):
    ask = [{"role": "user", "content": "Hi"}]
    (alone,) = llm.chat(ask, GREEDY, use_tqdm=False)
    both = llm.chat(
        [ask, [*ask, {"role": "assistant", "content": "Yo"}, *ask]], GREEDY, use_tqdm=False
    )
    assert both[0].outputs[0].token_ids == alone.outputs[0].token_ids
    assert len(both[1].prompt_token_ids) > len(alone.prompt_token_ids)


def test_a_bad_argument_is_refused_by_name(llm):
    with pytest.raises(errors.ConfigError, match=r"Unknown option 'max_seqs'.*max_num_seqs"):
        LLM(model="tiny-random", max_seqs=4)
    for width in (1, "4"):
        with pytest.raises(errors.InvalidSamplingParamsError, match="beam_width"):
            llm.beam_search(["Hello"], beam_width=width, max_tokens=4)
    for salt in ("", 5, ["red"]):
        with pytest.raises(
            errors.InvalidRequestError, match="cache_salt must be a non-empty string"
        ):
            llm.generate({"prompt": "Hello", "cache_salt": salt})
    for params in ("greedy", [GREEDY, GREEDY], [1]):
        with pytest.raises(errors.InvalidRequestError, match="sampling_params"):
            llm.generate(["one"], params, use_tqdm=False)
