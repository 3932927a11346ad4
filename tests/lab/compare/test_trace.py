"""Traces are equal for both sides and in every run, with the lengths that their names say."""

import pytest

from minivllm.lab.compare.trace import make_trace
from minivllm.lessons.scenarios.scenarios import SCENARIOS


class ByteTokenizer:
    vocab_size = 259

    def apply_chat_template(self, messages):
        return list("".join(message["content"] for message in messages).encode())


def test_lengths_are_drawn_from_the_range_that_the_name_says():
    requests = make_trace("lengths-64-1024", ByteTokenizer(), 0).requests
    totals = sorted(
        len(request.prompt_token_ids) + request.params.max_tokens for request in requests
    )
    assert 64 <= totals[0] < 200 and 900 < totals[-1] <= 1024
    requests = make_trace("lengths-8-256", ByteTokenizer(), 0).requests
    for lengths in (
        [len(one.prompt_token_ids) for one in requests],
        [one.params.max_tokens for one in requests],
    ):
        assert 8 <= min(lengths) < 30 and 230 < max(lengths) <= 256


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_keeps_its_requests_options_and_arrivals(name):
    trace, scenario = make_trace(name, ByteTokenizer(), 0), SCENARIOS[name]
    assert trace.options == scenario.options
    assert [len(wave) for wave in trace.waves] == [len(wave) for wave in scenario.waves]
    assert [one.after_steps for one in trace.requests] == [
        one.after_steps for one in scenario.arrivals
    ]
