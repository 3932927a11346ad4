"""Fixtures for the tests of lessons."""

import pytest

from minivllm.lessons.teacher.lesson_engine import ModelShelf


@pytest.fixture(scope="session")
def lesson_shelf() -> ModelShelf:
    return ModelShelf()
