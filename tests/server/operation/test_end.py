"""The end of a server: slow readers do not delay it, and waiting clients get the reason."""

import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

from support.patience import FOREVER
from support.server.live_server import deaf_client, fake_engine, serving, wait_for

from minivllm.events import types as ev

LONG = {"prompt": "a long story", "max_tokens": 150, "ignore_eos": True}


BIG = {"tokens": [60] * 50_000}


def test_a_client_that_does_not_read_its_answer_is_cut_off_at_the_time_limit():
    engine = fake_engine(max_model_len=60_000)
    with serving(engine, send_buffer=4096, request_timeout=1.0) as live, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(deaf_client(live, "/detokenize", BIG))
        connections = live.server.server_state.connections
        wait_for(lambda: [one.flow.write_paused for one in connections] == [True] * 3)
        wait_for(lambda: not connections)


def test_a_client_that_does_not_read_does_not_delay_the_end():
    engine = fake_engine(max_model_len=60_000)
    options = {"send_buffer": 4096, "drain_timeout": 0.5, "events": True}
    with serving(engine, **options) as live, deaf_client(live, "/detokenize", BIG):
        wait_for(lambda: any(one.flow.write_paused for one in live.server.server_state.connections))
        live.begin_exit()
        wait_for(live.loop_has_ended)
        assert not live.server.server_state.connections


def test_a_second_signal_ends_at_once_and_waiting_clients_get_the_reason(caplog):
    caplog.set_level(logging.ERROR)
    with serving(drain_timeout=FOREVER) as live, live.http() as http, ThreadPoolExecutor(1) as pool:
        live.runner.seconds_per_step = 0.05
        running = pool.submit(http.post, "/v1/completions", json=LONG)
        with http.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as streaming:
            pieces = streaming.iter_text()
            text = next(pieces)
            wait_for(lambda: len(live.events_of(ev.RequestAdmitted)) == 2)
            live.begin_exit()
            live.begin_exit()
            text += "".join(pieces)
        refused = running.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        *_, last, done, end = text.split("\n\n")
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert (done, end) == ("data: [DONE]", "")
        wait_for(live.loop_has_ended)
        # The application was closed properly too: its engine's thread has ended.
        assert live.service.is_dead
    assert caplog.records == []


def test_a_second_signal_cuts_off_clients_that_still_send_and_leaves_no_traceback(caplog):
    caplog.set_level(logging.ERROR)
    with serving(drain_timeout=FOREVER) as live, socket.socket() as client:
        parts = urlsplit(live.url)
        client.connect((parts.hostname, parts.port))
        client.sendall(
            b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        wait_for(lambda: bool(live.server.server_state.tasks))
        live.begin_exit()
        live.begin_exit()
        wait_for(live.loop_has_ended)
        assert live.service.is_dead
    assert caplog.records == []
