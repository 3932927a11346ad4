"""Fixtures for the tests of scenarios."""

import pytest
from support.docs.played_scenarios import MODELS

from minivllm.lessons.teacher.lesson_engine import ModelShelf


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def lesson_shelf() -> ModelShelf:
    """One tiny model for all lessons."""
    return ModelShelf("tiny-random")
