"""Starts vLLM's scheduler with what the recorder refuses, and serves a request with it.

It prints one line of JSON for each: what the log says, and how many tokens the request got.
"""

import json
import os
import sys
from collections.abc import Callable
from unittest.mock import patch

import torch
import vllm
from vllm.config import KVTransferConfig, VllmConfig
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec

from minivllm.lab.twin.simulated import SimulatedVllm
from minivllm.vllm import scheduler as recorder

WINDOW = SlidingWindowSpec(16, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=64)


def several_groups(config: VllmConfig, cache: KVCacheConfig) -> None:
    cache.kv_cache_groups.append(KVCacheGroupSpec(["window"], WINDOW))


def connector(config: VllmConfig, cache: KVCacheConfig) -> None:
    config.scheduler_config.disable_hybrid_kv_cache_manager = True
    config.kv_transfer_config = KVTransferConfig(kv_connector="ExampleConnector", kv_role="kv_both")


def pipeline(config: VllmConfig, cache: KVCacheConfig) -> None:
    config.parallel_config.pipeline_parallel_size = 2


def serve(change: Callable = lambda *_: None, **options: object) -> None:
    lines, tokens = [], []

    def scheduler(**given: object) -> recorder.RecordingScheduler:
        change(given["vllm_config"], given["kv_cache_config"])
        return recorder.RecordingScheduler(**given)

    recorder._log.setLevel("INFO")
    recorder._log.handle = lambda record: lines.append(record.getMessage())
    options |= {"num_blocks": 40, "block_size": 16, "max_model_len": 256, "max_num_seqs": 4}
    sample = lambda *_: tokens.append(7) or [7]  # noqa: E731
    engine = SimulatedVllm(sample, scheduler, max_num_batched_tokens=64, **options)
    engine.add("r", [7] * 40, max_tokens=5, ignore_eos=True)
    while engine.is_busy:
        engine.step()
    engine.scheduler.shutdown()
    print(json.dumps({"said": lines, "num_tokens": len(tokens)}), flush=True)


def main() -> None:
    os.environ["MINIVLLM_RECORD"] = sys.argv[1]
    for change in (several_groups, connector, pipeline):
        serve(change)
    problem = recorder._problem
    for name in ("is_encoder_decoder", "multimodal_config", "num_spec_tokens"):

        def of_changed(scheduler: recorder.RecordingScheduler, name: str = name) -> str | None:
            model = scheduler.vllm_config.model_config
            owner = scheduler if name == "num_spec_tokens" else model
            with patch.dict(vars(owner), {name: True}):
                return problem(scheduler)

        with patch.object(recorder, "_problem", of_changed):
            serve(is_async=True)
    for limit in ("2GB", "-1"):
        with patch.dict(os.environ, MINIVLLM_RECORD_LIMIT=limit):
            serve()
    with patch.object(vllm, "__version__", "0.99.0"):
        serve()
        assert not os.path.exists(sys.argv[1])
        with patch.object(vllm, "__version__", "0.33.0.post1"):
            serve()
        os.environ["MINIVLLM_RECORD_ANY_VERSION"] = "1"
        serve()


if __name__ == "__main__":
    main()
