"""`transformers` with its own continuous batching and paged cache, as a peer of our benches.

Source: transformers 5.17 and 5.23, `generation/continuous_batching/continuous_api.py`.
"""

from typing import Any

from transformers import ContinuousBatchingConfig, GenerationConfig

from minivllm.errors import BenchError
from minivllm.lab import bench
from minivllm.lab.bench.throughput.workloads import BenchRequest


class ContinuousPeer(bench.TransformersPeer):
    """Its manager and not `generate_batch`: each request has its own number of tokens."""

    name = "transformers, continuous batching"

    def __enter__(self) -> "ContinuousPeer":
        config, device = ContinuousBatchingConfig(), self._model.device.type
        if device == "cpu":  # on a GPU it takes what is free
            config.num_blocks, config.max_batch_tokens = 64, 512
        # By default, it would try to download a flash kernel from the Hub.
        self._model.set_attn_implementation("paged|sdpa")
        self._manager = self._model.init_continuous_batching(
            GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0), config
        )
        self._manager.warmup()
        self._manager.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._manager.stop(block=True, timeout=5)

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        add = self._manager.add_request
        ids = [add(each.prompt_token_ids, max_new_tokens=each.max_tokens) for each in requests]
        found: dict[str, list[int]] = {}
        while len(found) < len(ids):
            result = self._manager.get_result(timeout=1)
            if result.error if result else not self._manager.is_running():
                raise BenchError(f"{self.name} failed: {result and result.error}")
            if result and result.is_finished():
                found[result.request_id] = result.generated_tokens
        return [found[request_id] for request_id in ids]
