"""A model that raises when nobody else is served: that request fails, the server goes on; but a
broken model looks broken.
"""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from support.server.live_server import LiveServer, fake_engine, serving, wait_for

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.isolation import MAX_FAILED_IN_A_ROW
from minivllm.events.fold import Fold
from minivllm.runtime.step_result import StepResult, Watch

POISON = "~"
"""The model raises for whoever has it in the prompt."""


@pytest.fixture
def live():
    with serving(fake_engine(max_num_seqs=1)) as live:
        whole = live.runner.execute_model
        poison = live.engine.tokenizer.encode(POISON)[0]

        def execute(plan: SchedulerOutput, watch: Watch) -> StepResult:
            result = whole(plan, watch)  # everything is written by then
            if any(
                poison in item.sequence.token_ids[: item.sequence.num_prompt_tokens]
                for item in plan.scheduled
            ):
                raise RuntimeError("a kernel at /home/somebody/kernel.py refused")
            return result

        live.runner.execute_model = execute
        yield live


def ask(live: LiveServer, prompt: str, **fields: object) -> httpx2.Response:
    with live.http() as http:
        return http.post(
            "/v1/completions", json={"prompt": prompt, "max_tokens": 5, "ignore_eos": True} | fields
        )


def health(live: LiveServer) -> int:
    with live.http() as http:
        return http.get("/health").status_code


def fold_of(live: LiveServer) -> Fold:
    fold = Fold(live.engine.log_header())
    for event in live.events:
        fold.apply(event)
    return fold


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_fails_alone_gets_its_error_and_the_next_is_answered(
    live: LiveServer, stream: bool
) -> None:
    expected = ask(live, "once upon").json()["choices"][0]["text"]
    for _ in range(2 * MAX_FAILED_IN_A_ROW):
        failed = ask(live, f"once upon {POISON}", stream=stream)
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "request_failed")
        assert "/home" not in failed.text
        assert ask(live, "once upon").json()["choices"][0]["text"] == expected
    live.wait_until_idle()
    assert live.num_free_blocks == 100
    assert health(live) == 200
    assert fold_of(live).state == live.engine.inspect()


def test_a_model_that_always_fails_ends_the_engine_and_everybody_hears_of_it(
    live: LiveServer,
) -> None:
    live.runner.gate.clear()
    with ThreadPoolExecutor(MAX_FAILED_IN_A_ROW + 3) as pool:
        answers = [
            pool.submit(ask, live, POISON, stream=i % 2 == 1)
            for i in range(MAX_FAILED_IN_A_ROW + 3)
        ]
        wait_for(lambda: live.service.num_unfinished == len(answers))
        wait_for(lambda: live.service.num_waiting == len(answers) - 1)
        assert health(live) == 200
        live.runner.gate.set()
        codes = [
            (one.result().status_code, one.result().json()["error"]["code"]) for one in answers
        ]
    # Those who failed while it was not clear; the one of whom it died and those who waited behind.
    assert (
        sorted(codes)
        == [(500, "request_failed")] * MAX_FAILED_IN_A_ROW + [(503, "engine_dead")] * 3
    )
    assert health(live) == 503
    assert ask(live, "once upon").json()["error"]["code"] == "engine_dead"
    assert fold_of(live).state == live.engine.inspect()


def test_a_lost_device_ends_the_engine_with_the_first_request(live: LiveServer) -> None:
    live.runner.device_lost = True
    assert ask(live, "once upon").status_code == 200
    assert ask(live, POISON).json()["error"]["code"] == "engine_dead"
    assert health(live) == 503
