"""One server in process with the tiny random model, for all ordinary tests."""

from collections.abc import Iterator

import pytest
from openai import OpenAI
from support.server.in_process import in_process
from support.server.live_server import LiveServer

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import LoadedModel, load_model

CONFIG = EngineConfig(
    model="tiny-random", dtype="float32", num_gpu_blocks_override=200, max_num_seqs=16,
    max_num_batched_tokens=128, block_size=8,
)  # fmt: skip


@pytest.fixture(scope="session")
def tiny_model() -> LoadedModel:
    return load_model(CONFIG)


@pytest.fixture
def client(tiny_server: LiveServer) -> OpenAI:
    return tiny_server.openai()


@pytest.fixture(scope="session")
def tiny_server(tiny_model: LoadedModel) -> Iterator[LiveServer]:
    with in_process(LLMEngine.from_model(CONFIG, tiny_model), max_waiting_requests=100) as live:
        yield live
