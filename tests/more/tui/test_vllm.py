"""`attach --vllm`: reported values are drawn, and missing ones are called unknown."""

import asyncio
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.engine.engine_fakes import WatchedEngine
from support.patience import SOON
from support.tui.shown import missing_from

from minivllm.server.feeds.kv_feed import KVEventFeed
from minivllm.server.feeds.kv_publisher import KVEventPublisher
from minivllm.server.metrics.router import EngineMetrics
from minivllm.tui.vllm import metrics
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_app import VllmApp

# Written by hand after the metrics in vLLM 0.32's source, for two engines; not a recording.
METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama"} 3.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama"} 4.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="meta-llama/Llama"} 0.25
"""


@contextmanager
def metrics_server(text: Callable[[], str]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(text().encode())

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.server_port}"
        finally:
            listener.shutdown()
            thread.join()


def poll_until(source: VllmSource, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, (source.status, source.kv_status)
        source.poll()
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SECONDS_BETWEEN", 0.02)


def test_our_own_engine_is_followed_like_vllm_through_both_sockets() -> None:
    engine = WatchedEngine(num_blocks=16, max_num_seqs=4)
    header = engine.engine.log_header()
    metrics = EngineMetrics(header)
    engine.engine.subscribe(metrics.apply)
    publisher = KVEventPublisher("tcp://127.0.0.1:*", encoding="map")
    with metrics_server(lambda: metrics.text().decode()) as url:
        source = VllmSource(url, publisher.endpoint)
        view = source.view

        def has_come() -> bool:
            publisher.publish(0.0, [])  # PUB drops messages before the subscriber has connected
            return view.last_number is not None

        poll_until(source, has_come)
        feed = KVEventFeed(header, publisher)
        engine.engine.subscribe(feed.apply)
        for i in range(12):
            engine.add(f"r{i}", [1, 2, 3, 4, 5, 6, 7, 8, i, i], max_tokens=9)
        engine.run()
        poll_until(source, lambda: view.last_number == publisher._next_seq - 1)
        tokens = engine.fold.counters.generation_tokens
        poll_until(source, lambda: view.value("generation_tokens_total") == tokens)
        in_pool = {int(block.hash, 16) for block in engine.fold.blocks if block.hash}
        assert {name for _, name in view.blocks} == in_pool and view.knows_all_names
        assert view.num_unsure == view.num_lost_batches == view.num_unknown_removed == 0
        source.close()
    publisher.close()


def test_the_screen_shows_known_values_names_unknown_ones_and_keeps_the_last_ones() -> None:
    def text() -> str:
        strips = app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def main() -> str:
        async with app.run_test(size=(140, 40)) as pilot:
            deadline = time.monotonic() + SOON
            while "running 7" not in text():
                assert time.monotonic() < deadline, text()
                await pilot.pause(0.02)
            return text()

    with metrics_server(lambda: METRICS) as url:
        source = VllmSource(url)
        app = VllmApp(source)
        shown = asyncio.run(main())
    assert missing_from(shown, "waiting unknown", "LIVE", "25.0%") == []
    assert source.view.value("num_requests_running") == 7
