"""The house model, and a run of it in a small cache, followed event by event."""

from collections.abc import Callable

import pytest
from support.engine.followed_run import FollowedRun

from minivllm.config import EngineConfig
from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.sampling_params import StructuredOutputsParams


@pytest.fixture(scope="session")
def house() -> LoadedModel:
    return load_model(
        EngineConfig(model="house", dtype="float32", device="cpu", attention_backend="torch")
    )


@pytest.fixture
def generate(house: LoadedModel) -> Callable[..., FollowedRun]:
    """Run requests (prompt, form of the output, other sampling parameters) to their ends."""

    def run(requests: list[tuple[str, dict, dict]], **options: object) -> FollowedRun:
        followed = FollowedRun(house, **{"max_model_len": 256, **options})
        for number, (prompt, form, params) in enumerate(requests):
            sampling = {"seed": number, "max_tokens": 60, "ignore_eos": False, **params}
            sampling["structured_outputs"] = StructuredOutputsParams(**form)
            followed.add(f"r{number}", house.tokenizer.encode(prompt), sampling)
        return followed.finish()

    return run
