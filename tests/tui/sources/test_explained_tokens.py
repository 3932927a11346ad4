"""Explained tokens, with their words, in a replay and from a server that explains all tokens."""

import pytest
from support.engine.followed_run import FollowedRun
from support.server.live_server import serving
from support.tui.driven_app import drawn, drive, panel, settle, show_screen, until

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.tui.app import DashboardApp
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS

PARAMS = {"temperature": 0.8, "top_p": 0.9, "seed": 3, "max_tokens": 5}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(EngineConfig(model="house", dtype="float32", device="cpu"))


@pytest.fixture(scope="module")
def run(model) -> FollowedRun:
    run = FollowedRun(model, explain_tokens=True)
    run.add("ada", model.tokenizer.encode("Tell me a story"), PARAMS)
    return run.finish()


def check_the_panel(app: DashboardApp, event: ev.TokenExplained) -> None:
    assert app.model.explanations.of(event.seq_id) == event
    text = " ".join("\n".join(drawn(app, "choice")).split())
    for token in filter(None, (event.chosen, event.candidates[0])):
        word = app.model.fold.token_pieces[token.token_id]
        assert word.strip() and word.strip() in text
        assert f"{token.final_probability:.1%}" in text
    drawn_yet = "before sample: " if event.token_id is None else ""
    step = "" if event.token_id is None else f", step {event.step}"
    title = str(panel(app, "choice").border_title)
    assert title == f"The choice  {drawn_yet}token {event.position}{step}"


def test_a_replay_shows_the_explanation_of_every_token_at_its_moment(run, tmp_path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode_header(run.header) + b"".join(map(encode_event, run.events)))
    app = DashboardApp(ReplaySource(path, codec=MODELS), state="paused")

    async def script(pilot) -> None:
        transport = app.context.transport
        await until(pilot, lambda: len(transport.recording) == len(run.events))
        await show_screen(pilot, "choice")
        for event in reversed(run.of(ev.TokenExplained)):
            transport.to_position(run.events.index(event) + 1)
            app.draw()
            await settle(pilot)
            check_the_panel(app, event)

    # Steps are taken phase by phase, so each token is explained before its draw, too.
    found = [(one.position, one.token_id is None) for one in run.of(ev.TokenExplained)]
    assert [is_before for _, is_before in found] == [True, False] * 5
    assert len({position for position, _ in found}) == 5
    drive(app, script)


def test_a_dashboard_attached_to_a_server_shows_the_explanations_of_its_tokens(model) -> None:
    options = {"num_gpu_blocks_override": 64, "max_model_len": 128, "explain_tokens": True}
    config = EngineConfig(model="house", dtype="float32", device="cpu", **options)
    with serving(LLMEngine.from_model(config, model), events=True) as live, live.http() as http:
        app = DashboardApp(HttpSource(live.url, codec=MODELS))

        async def script(pilot) -> None:
            await show_screen(pilot, "choice")
            body = {"prompt": "Tell me a story", **PARAMS}
            assert http.post("/v1/completions", json=body).status_code == 200
            live.wait_until_idle()
            last = live.events_of(ev.TokenExplained)[-1]
            await until(pilot, lambda: app.model.explanations.last == last)
            await settle(pilot)
            check_the_panel(app, last)

        drive(app, script)
