"""`attach --vllm`: reported values are drawn, and missing ones are called unknown."""

import asyncio
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.patience import SOON
from support.tui.shown import missing_from

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


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SECONDS_BETWEEN", 0.02)


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
