"""`SimulatedVllm`: vLLM's own scheduler, block pool and KV cache manager, without a model.

Tokens are given by a function, so thousands of steps take seconds. The loop is that of vLLM's
`v1/engine/core.py`: with asynchronous scheduling, the next step is planned before the tokens of this
one are known.
"""

import json
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, SpeculativeConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from minivllm.lab.twin.trace import TwinRequest, TwinTrace, play
from minivllm.vllm.scheduler import RecordingScheduler

_MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 49152,
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 1,
    "num_key_value_heads": 1, "max_position_embeddings": 1 << 20, "bos_token_id": 1,
    "eos_token_id": 2, "torch_dtype": "float32",
}  # fmt: skip

Sample = Callable[[Request, int], list[int]]
"""The model: a request and its number of drafts -> its new tokens."""


class SimulatedVllm:
    def __init__(
        self, sample: Sample, scheduler_cls: Callable = RecordingScheduler, *, num_blocks: int,
        block_size: int, max_model_len: int, enable_prefix_caching: bool = True,
        scheduling_policy: str = "fcfs", num_drafts: int = 0, is_async: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        """more: options of vLLM's scheduler"""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(_MODEL), encoding="utf-8")
            most = {"max_model_len": max_model_len}
            model = ModelConfig(folder, dtype="float32", skip_tokenizer_init=True, **most)
        more |= {"policy": scheduling_policy, "async_scheduling": is_async, **most}
        scheduler = SchedulerConfig(is_encoder_decoder=False, **more)
        cache = CacheConfig(block_size=block_size, enable_prefix_caching=enable_prefix_caching)
        cache.num_gpu_blocks = num_blocks
        ngram = {"model": "ngram", "num_speculative_tokens": num_drafts, "prompt_lookup_max": 3}
        config = VllmConfig(
            model_config=model, scheduler_config=scheduler, cache_config=cache,
            speculative_config=SpeculativeConfig(**ngram) if num_drafts else None,
        )  # fmt: skip
        config.scheduler_config.async_scheduling = is_async  # vLLM turns it off on a CPU
        spec = FullAttentionSpec(block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
        self.scheduler = scheduler_cls(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(num_blocks, [], [KVCacheGroupSpec(["layer"], spec)]),
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size, hash_block_size=block_size, log_stats=True,
        )  # fmt: skip
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(block_size, sha256)
        self._sample = sample
        self._depth = 2 if is_async else 1
        self._queue: deque[tuple[Any, ModelRunnerOutput]] = deque()

    def add(self, name: str, tokens: Sequence[int], priority: int = 0, **params: Any) -> None:
        params = SamplingParams(**{"temperature": 0.0, **params})
        params.update_from_generation_config({}, eos_token_id=_MODEL["eos_token_id"])
        self.scheduler.add_request(
            Request(name, list(tokens), params, None, priority=priority, block_hasher=self._hasher)
        )

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests([name], RequestStatus.FINISHED_ABORTED)

    @property
    def is_busy(self) -> bool:
        return self.scheduler.has_requests() or bool(self._queue)

    def step(self) -> None:
        scheduler, queue = self.scheduler, self._queue
        if scheduler.has_requests():
            plan = scheduler.schedule()
            queue.appendleft((plan, self._run(plan)))
            if len(queue) < self._depth and (plan.num_scheduled_tokens or scheduler.has_requests()):
                return
        if queue:
            scheduler.update_from_output(*queue.pop())

    def _run(self, plan: Any) -> ModelRunnerOutput:
        names, tokens = list(plan.num_scheduled_tokens), []
        for name in names:
            request = self.scheduler.requests[name]
            drafts = len(plan.scheduled_spec_decode_tokens.get(name, ()))
            # A chunk that does not reach the newest token has no output.
            tokens.append([] if request.is_prefill_chunk else self._sample(request, drafts))
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: at for at, name in enumerate(names)},
            sampled_token_ids=tokens,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )


def run_theirs(trace: TwinTrace, path: Path) -> None:
    """Serve the trace with vLLM's scheduler, and record it."""
    outputs = {request.name: request.output_token_ids for request in trace.requests}
    os.environ["MINIVLLM_RECORD"] = str(path)
    engine = SimulatedVllm(
        lambda request, drafts: [outputs[request.request_id][request.num_output_tokens]],
        num_blocks=trace.num_blocks + 1,
        **trace.options,
    )

    def add(request: TwinRequest) -> None:
        most = {"max_tokens": len(request.output_token_ids), "ignore_eos": True}
        engine.add(request.name, request.prompt_token_ids, request.priority, **most)

    play(trace, add, engine.abort, engine.step, lambda: engine.is_busy)
    engine.scheduler.shutdown()
    if engine.scheduler.tap.failure is not None:
        raise engine.scheduler.tap.failure


def main(traces: list[str]) -> None:
    """Record each TRACE.json in TRACE.jsonl."""
    for name in traces:
        trace = msgspec.json.decode(Path(name).read_bytes(), type=TwinTrace)
        run_theirs(trace, Path(name).with_suffix(".jsonl"))


if __name__ == "__main__":
    main(sys.argv[1:])
