"""Fixtures for the scenarios: each is played once on each model."""

from pathlib import Path

import pytest
from support.docs.played_scenarios import MODELS, Played, play
from support.model.one_thread import in_one_thread

from minivllm.lessons.scenarios.scenarios import SCENARIOS


@pytest.fixture(scope="session", params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def chat_path(model: str, request: pytest.FixtureRequest) -> Path | None:
    """Where SmolLM2's tokenizer is. The house model needs no download, so it asks for none."""
    return None if model == "house" else request.getfixturevalue("smollm2_path")


@pytest.fixture(scope="session")
def runs(model: str, chat_path: Path | None) -> dict[str, Played]:
    with in_one_thread():
        return {name: play(scenario, model, chat_path) for name, scenario in SCENARIOS.items()}
