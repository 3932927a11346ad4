"""`attach --vllm`: reported values are drawn, and missing ones are called unknown."""

import asyncio
import http.server
import math
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

import pytest
import zmq
from support.engine.engine_fakes import WatchedEngine
from support.patience import SOON
from support.tui.driven_app import until
from support.tui.shown import missing_from

from minivllm.cli import main
from minivllm.errors import ConfigError, EventLogError
from minivllm.events.vllm_kv_wire import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVEvent,
    KVEventBatch,
    encode_batch,
)
from minivllm.server.feeds.kv_feed import KVEventFeed
from minivllm.server.feeds.kv_publisher import KVEventPublisher
from minivllm.server.metrics.router import EngineMetrics
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.theme import LIGHT
from minivllm.tui.vllm import metrics
from minivllm.tui.vllm.kv import Numbered
from minivllm.tui.vllm.metrics import parse_scrape
from minivllm.tui.vllm.source import VllmSource
from minivllm.tui.vllm.vllm_app import VllmApp
from minivllm.tui.vllm.vllm_panels import (
    VllmBlocks,
    VllmLatency,
    VllmLoad,
    VllmMemory,
    VllmUnknown,
    between,
)
from minivllm.tui.vllm.vllm_view import Quantile, VllmView

# Written by hand after the metrics in vLLM 0.32's source, for two engines; not a recording.
METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama"} 3.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama"} 4.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="meta-llama/Llama"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="meta-llama/Llama"} 0.5
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama"} %d
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="meta-llama/Llama"} %d
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="meta-llama/Llama"} %d
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="meta-llama/Llama"} %d
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.25",model_name="meta-llama/Llama"} %d
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="meta-llama/Llama"} %d
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="2048"} 1.0
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
"""
BEFORE = METRICS % (1000, 400, 100, 50, 60, 60)
AFTER = METRICS % (1500, 500, 180, 50, 68, 70)
TTFT = "time_to_first_token_seconds"


def view_of(*texts: str, seconds: float = 5.0) -> VllmView:
    view = VllmView()
    for number, text in enumerate(texts):
        view.take_scrape(parse_scrape(text, number * seconds))
    return view


def rows(panel, view: VllmView, width: int = 90, height: int = 10) -> list[str]:
    return [text_of(line).rstrip() for line in panel.lines(view, width, height)]


# ---- metrics ----


def test_sums_rates_and_shares_are_those_of_the_text() -> None:
    view = view_of(BEFORE, AFTER)
    assert view.value("num_requests_running") == 7 and view.scrape.models == ("meta-llama/Llama",)
    assert view.rate("generation_tokens_total") == 100.0
    assert view.share("prefix_cache_hits_total", "prefix_cache_queries_total") == 0.8
    assert view.num_blocks == 2048 and view.scrape.kv_cache_usage == {"0": 0.25, "1": 0.5}


def test_a_rate_needs_two_answers_in_its_window_and_starts_again_after_a_restart() -> None:
    assert view_of(AFTER).rate("generation_tokens_total") is None
    view = view_of(BEFORE, AFTER, BEFORE)
    assert view.rate("generation_tokens_total") is None and view.quantile(TTFT, 0.5) is None
    view.take_scrape(parse_scrape(AFTER, 20.0))
    assert view.rate("generation_tokens_total") == 50.0
    assert view_of(BEFORE, *[AFTER] * 8).rate("generation_tokens_total") == 0.0


def test_missing_values_are_drawn_as_unknown() -> None:
    view = view_of(BEFORE, AFTER)
    running, tokens = rows(VllmLoad(), view)[:2]
    assert missing_from(running, "running 7", "waiting unknown") == []
    assert missing_from(tokens, "output 100", "prompt unknown") == []
    assert rows(VllmLatency(), view)[1].split()[-3:] == ["unknown"] * 3
    assert [row.split()[-1] for row in rows(VllmMemory(), VllmView())] == ["unknown", "unknown"]
    assert len(rows(VllmUnknown(), VllmView())) == 5


def test_a_quantile_is_given_by_two_boundaries() -> None:
    # Within the window: none up to 0.1 s, eight up to 0.25 s, two above.
    view = view_of(BEFORE, AFTER)
    assert view.quantile(TTFT, 0.8) == Quantile(0.1, 0.25)
    assert view.quantile(TTFT, 0.81) == Quantile(0.25, math.inf)
    assert view.quantile("no_such_seconds", 0.5) is None
    assert view_of(AFTER, AFTER).quantile(TTFT, 0.5) is None
    assert between(Quantile(0.1, 0.25))[0] == "100–250 ms"
    assert between(Quantile(80.0, math.inf))[0] == "over 80 s"


@pytest.mark.parametrize(
    "text", ["", "<html>", "garbage {", "python_info 1.0\n", 'vllm:x{le="a} 1\n', "vllm:x one\n"]
)
def test_a_text_without_vllm_metrics_is_one_typed_error(text: str) -> None:
    with pytest.raises(EventLogError, match="is this the address of a vLLM server"):
        parse_scrape(text, 0.0)


# ---- names of blocks ----


def taken(*batches: list[KVEvent], first: int = 0) -> VllmView:
    view = VllmView()
    for number, events in enumerate(batches, start=first):
        view.take_batch(Numbered(number, KVEventBatch(0.0, events)))
    return view


def stored(*names: int, parent: int | None = None, medium: str | None = "GPU") -> BlockStored:
    return BlockStored(list(names), parent, [7] * (4 * len(names)), 4, medium=medium)


def test_names_come_and_go_in_each_memory_and_chains_keep_their_order() -> None:
    view = taken(
        [AllBlocksCleared(), stored(1, 2, 3)], [BlockRemoved([3], "GPU"), stored(4, parent=2)]
    )
    assert [name for _, name in view.blocks] == [1, 2, 4] and view.knows_all_names
    assert [block.parent for block in view.blocks.values()] == [None, 1, 2]
    assert (view.num_stored, view.num_removed, view.num_unsure) == (4, 1, 0)
    view = taken([stored(1), stored(1, medium="CPU")], [BlockRemoved([1], "CPU")])
    assert list(view.blocks) == [("GPU", 1)]


def test_a_late_subscriber_does_not_know_earlier_blocks() -> None:
    view = taken([stored(5, parent=4)], [BlockRemoved([2], "GPU")], first=900)
    assert not view.knows_all_names and view.num_unknown_removed == 1 and view.num_lost_batches == 0
    source = type("Source", (), {"kv_status": ("live", "")})()
    shown = rows(VllmBlocks(source, id="blocks"), view)
    assert missing_from(shown[0], 1, "unknown") == missing_from(shown[2], 1) == []
    assert shown[-1] == "╴"


@pytest.mark.parametrize(
    ("next_number", "num_lost"), [(5, 3), (0, 0)], ids=["lost batches", "started again"]
)
def test_after_a_gap_in_the_numbers_all_knowledge_is_dropped(
    next_number: int, num_lost: int
) -> None:
    view = taken([AllBlocksCleared()], [stored(1, 2)])
    view.take_batch(Numbered(next_number, KVEventBatch(0.0, [stored(9, parent=2)])))
    assert [name for _, name in view.blocks] == [9] and not view.knows_all_names
    assert view.num_lost_batches == num_lost


# ---- the whole way, over sockets ----


@contextmanager
def metrics_server(text: Callable[[], str], status: int = 200):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/metrics" else 404)
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
def quick(monkeypatch) -> None:
    monkeypatch.setattr(metrics, "SECONDS_BETWEEN", 0.02)


@pytest.mark.parametrize("encoding", ["map", "array"])
def test_our_own_engine_is_followed_like_vllm_through_both_sockets(encoding: str) -> None:
    engine = WatchedEngine(num_blocks=16, max_num_seqs=4)
    header = engine.engine.log_header()
    metrics = EngineMetrics(header)
    engine.engine.subscribe(metrics.apply)
    publisher = KVEventPublisher("tcp://127.0.0.1:*", encoding=encoding)
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
        assert view.num_removed > 0 and view.num_blocks == 16
        source.close()
    publisher.close()


def test_damaged_batches_are_reported_and_the_next_good_one_is_used() -> None:
    context = zmq.Context()
    pub = context.socket(zmq.PUB)
    pub.bind("tcp://127.0.0.1:*")
    with metrics_server(lambda: BEFORE) as url:
        source = VllmSource(url, pub.getsockopt_string(zmq.LAST_ENDPOINT))

        def refused() -> bool:
            for frames in ((b"", b"short", b""), (b"one",), (b"", bytes(8), b"garbage")):
                pub.send_multipart(frames)
            return "not a batch of KV events" in source.kv_status.text

        poll_until(source, refused)
        pub.send_multipart((b"", (3).to_bytes(8, "big"), encode_batch(0.0, [stored(1)], "map")))
        poll_until(source, lambda: len(source.view.blocks) == 1)
        assert source.kv_status.state == "live"
        source.close()
    context.destroy(linger=0)


def test_a_lost_server_or_missing_metrics_are_reported_and_the_last_numbers_stay() -> None:
    evil = BEFORE.replace("meta-llama/Llama", "evil\x1b[2Jmodel").replace('"1"', '"\u202e1"')
    with metrics_server(lambda: evil) as url:
        source = VllmSource(url)
        poll_until(source, lambda: source.status.state == "live" and source.view.scrape is not None)
    poll_until(source, lambda: "is not available" in source.status.text)
    assert source.status.state == "lost" and source.view.value("num_requests_running") == 7
    assert all("\x1b" not in row and "\u202e" not in row for row in rows(VllmMemory(), source.view))
    source.close()
    with metrics_server(lambda: "<html>", status=404) as url:
        source = VllmSource(url)
        poll_until(source, lambda: "404 Not Found" in source.status.text)
        assert source.status.state == "lost" and source.view.scrape is None
        source.close()


def test_an_invalid_address_is_refused_and_leaves_no_thread() -> None:
    for url in ("localhost:8000", "ftp://host", "http://", "http://host:99999"):
        with pytest.raises(EventLogError, match="is not the address of a server"):
            VllmSource(url)
    with pytest.raises(ConfigError, match="is not the address of a KV event publisher"):
        VllmSource("http://localhost:8000", "nonsense")
    assert not [one for one in threading.enumerate() if one.name.startswith("minivllm-vllm")]


# ---- the screen and the command ----


@pytest.mark.parametrize(("size", "ascii"), [((80, 24), True), ((140, 40), False)])
def test_the_screen_shows_known_values_and_names_unknown_ones(
    size: tuple[int, int], ascii: bool
) -> None:
    def text() -> str:
        strips = app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def main() -> str:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: "running 7" in text())
            app.simulate_key("t")
            await until(pilot, lambda: app.theme == LIGHT.name and "meta-llama/Llama" in text())
            app.simulate_key("R")
            await until(pilot, lambda: app._notifications)
            assert "A race needs the requests" in next(iter(app._notifications)).message
            app.clear_notifications()
            return text()

    with metrics_server(lambda: BEFORE) as url:
        app = VllmApp(VllmSource(url), ascii=ascii)
        shown = asyncio.run(main())
    assert missing_from(shown, "waiting unknown", "LIVE", "25.0%") == []
    assert "unknown without --kv-events" in shown
    assert not ascii or shown.isascii()


URL = "http://localhost:8000"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Name one engine"),
        ([URL, "--vllm", URL], "Name one engine"),
        ([URL, "--kv-events", "tcp://localhost:5557"], "--kv-events needs --vllm"),
        (["--vllm", URL], "needs a terminal"),
    ],
)
def test_the_command_says_in_one_sentence_what_to_change(
    arguments: list[str], sentence: str, capsys
) -> None:
    assert main(["attach", *arguments]) in (1, 2)
    assert sentence in capsys.readouterr().err
