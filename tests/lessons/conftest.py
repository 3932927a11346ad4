"""Fixtures for the tests of lessons and scenarios."""

from pathlib import Path

import pytest
from support.docs.played_scenarios import MODELS, Played, play
from support.model.one_thread import in_one_thread

from minivllm.lessons.scenarios.scenarios import SCENARIOS
from minivllm.lessons.teacher.lesson_engine import ModelShelf


@pytest.fixture(scope="session", params=MODELS)
def model(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def lesson_shelf() -> ModelShelf:
    return ModelShelf()


@pytest.fixture(scope="session")
def chat_path(model: str, request: pytest.FixtureRequest) -> Path | None:
    """Where SmolLM2's tokenizer is. The house model needs no download, so it asks for none."""
    return None if model == "house" else request.getfixturevalue("smollm2_path")


@pytest.fixture(scope="session")
def runs(model: str, chat_path: Path | None) -> dict[str, Played]:
    """Each scenario, played once on one model."""
    with in_one_thread():
        return {name: play(scenario, model, chat_path) for name, scenario in SCENARIOS.items()}
