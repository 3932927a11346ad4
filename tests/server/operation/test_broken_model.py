"""A model error without batch-mates fails one request; repeated errors end the engine."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from support.server.in_process import in_process
from support.server.live_server import LiveServer, error_of, fake_engine, wait_for

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.runner import MAX_FAILED_IN_A_ROW
from minivllm.events.fold import Fold
from minivllm.runtime.step_result import Watch

POISON = "~"
"""The model raises for a prompt with this character."""


@pytest.fixture
def live():
    with in_process(fake_engine(max_num_seqs=1)) as live:
        poison = live.engine.tokenizer.encode(POISON)[0]

        def refuse(plan: SchedulerOutput, watch: Watch) -> None:
            sequences = [item.sequence for item in plan.scheduled]
            if any(poison in member.token_ids[: member.num_prompt_tokens] for member in sequences):
                raise RuntimeError("a kernel at /home/somebody/kernel.py refused")

        live.runner.after = refuse
        yield live


def ask(live: LiveServer, prompt: str, **fields: object) -> httpx2.Response:
    return live.post("/v1/completions", {"prompt": prompt, "max_tokens": 5} | fields)


def health(live: LiveServer) -> int:
    with live.http() as http:
        return http.get("/health").status_code


def check_fold(live: LiveServer) -> None:
    fold = Fold(live.engine.log_header())
    for event in live.events:
        fold.apply(event)
    assert fold.state == live.engine.inspect()


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_fails_alone_gets_an_error_and_the_next_one_is_answered(live, stream):
    expected = ask(live, "once upon").json()["choices"][0]["text"]
    for _ in range(2 * MAX_FAILED_IN_A_ROW):
        failed = ask(live, f"once upon {POISON}", stream=stream)
        assert error_of(failed) == (500, "request_failed")
        assert "/home" not in failed.text
        assert ask(live, "once upon").json()["choices"][0]["text"] == expected
    live.wait_until_idle()
    assert live.num_free_blocks == 100
    assert health(live) == 200
    check_fold(live)


def test_a_model_that_always_fails_ends_the_engine_and_every_client_gets_the_error(live):
    live.gate.close()
    number = MAX_FAILED_IN_A_ROW + 3
    with ThreadPoolExecutor(number) as pool:
        answers = [pool.submit(ask, live, POISON, stream=i % 2 == 1) for i in range(number)]
        wait_for(lambda: live.service.num_unfinished == number)
        wait_for(lambda: live.service.num_waiting == number - 1)
        assert health(live) == 200
        live.gate.open()
        found = sorted(error_of(answer.result()) for answer in answers)
    # Those that failed before the verdict, the one that ended the engine, and those behind it.
    assert found == [(500, "request_failed")] * MAX_FAILED_IN_A_ROW + [(503, "engine_dead")] * 3
    wait_for(lambda: health(live) == 503)
    dead = ask(live, "once upon")
    assert error_of(dead) == (503, "engine_dead") and dead.headers["x-should-retry"] == "false"
    check_fold(live)
