"""`transformers` with the same architecture and dummy weights as our engine.

The weights equal those of our `load_format="dummy"`. Tests check that float32 outputs are equal,
too. `ContinuousBatches` uses the manager behind `generate_batch`, because here each request has its
own output length.

On a GPU the manager sizes its cache from free memory, so engines measured earlier must have freed
theirs. On a CPU it gets as many blocks as the requests need. `attention` names the attention
implementation: flash attention if it is installed, otherwise sdpa.

Source: transformers 5.17 and 5.23, `generation/continuous_batching/continuous_api.py`.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minivllm.clock import Clock, MonotonicClock
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import BenchRequest, WorkloadSpec
from minivllm.runtime.checkpoint.checkpoint import read_model_config

PAGE_SIZE = 256
"""Tokens per block of transformers' cache: the default of 5.17 and 5.23."""

CPU_BATCH_TOKENS = 512
"""Maximum number of tokens per step on a CPU: the default of our engine."""


def load_dummy_transformers(directory: Path, dtype: str, device: str, seed: int) -> Any:
    """Build the model of `directory`'s config with our decoder's dummy weights for this seed."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    from minivllm.runtime.model.decoder import random_weights

    logging.disable_progress_bar()
    # Build the model on its device: rotary frequencies are not weights and would not be moved.
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(directory),
            dtype=getattr(torch, dtype),
            attn_implementation="sdpa",
        )
    # `named_parameters` lists a tied embedding only once, so no parameter is left over below.
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in random_weights(read_model_config(directory), seed):
            if name not in parameters:
                raise BenchError(
                    f"transformers lacks the weight {name} in this architecture: they cannot be"
                    " compared."
                )
            parameters.pop(name).copy_(tensor)
    if parameters:
        raise BenchError(
            f"transformers has the weight {next(iter(parameters))}, which minivllm lacks: they"
            " cannot be compared."
        )
    return model.eval()


class ContinuousBatches:
    """`transformers`' continuous batching. `close` frees the cache and restores the model."""

    name = "transformers, continuous batching"

    def __init__(
        self, model: Any, spec: WorkloadSpec, limit_s: float, clock: Clock | None = None
    ) -> None:
        """
        spec: maximum number and lengths of the requests
        limit_s: seconds after which `generate` raises an error
        """
        from transformers import GenerationConfig
        from transformers.generation import ContinuousBatchingConfig
        from transformers.generation.continuous_batching.utils import WorkloadHints

        self._limit_s = limit_s
        self._clock = clock or MonotonicClock()
        prompt_len, output_len = spec.shared_prefix_len + spec.prompt_len[1], spec.output_len[1]
        self._model = model
        config = ContinuousBatchingConfig()
        # By default, transformers would try to download a flash kernel from the Hub.
        if find_spec("flash_attn") is not None:
            model.set_attn_implementation("flash_attention_2")
        elif hasattr(config, "auto_switch_to_flash"):
            config.auto_switch_to_flash = False
        else:  # version 5.17 has no such option; the name of the implementation decides
            model.set_attn_implementation("paged|sdpa")
        if model.device.type == "cpu":
            config.num_blocks = spec.num_requests * (-(-(prompt_len + output_len) // PAGE_SIZE) + 1)
            config.max_batch_tokens = CPU_BATCH_TOKENS
        self._manager = model.init_continuous_batching(
            # -1: no end-of-sequence token
            generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=config,
            # the same hints as `generate_batch` gives
            workload_hints=WorkloadHints(prompt_len, output_len, spec.num_requests),
        )
        self.attention: str = model.config._attn_implementation
        self._manager.warmup()  # captures its CUDA graphs
        self._manager.start()

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        """Generate like `BenchEngine`. Raises `BenchError` on a failure or after the time limit."""
        give_up_at = self._clock.now() + self._limit_s
        request_ids = [
            self._manager.add_request(request.prompt_token_ids, max_new_tokens=request.max_tokens)
            for request in requests
        ]
        outputs: dict[str, list[int]] = {}
        while len(outputs) < len(request_ids):
            result = self._manager.get_result(timeout=1)
            if result is not None and result.error is not None:
                raise BenchError(f"{self.name} failed a request: {result.error}")
            if result is not None and result.is_finished():
                outputs[result.request_id] = result.generated_tokens
            elif result is None and not self._manager.is_running():
                raise BenchError(f"{self.name} stopped before all requests were done.")
            if self._clock.now() > give_up_at and len(outputs) < len(request_ids):
                raise BenchError(
                    f"{self.name} had finished {len(outputs)} of {len(request_ids)} requests after"
                    f" {self._limit_s:.0f} s."
                )
        return [outputs[request_id] for request_id in request_ids]

    def close(self) -> None:
        """End the manager's thread, even if requests are in progress."""
        self._manager.stop(block=True, timeout=30, hard_stop=True)
        self._manager.destroy()
        self._model.set_attn_implementation("sdpa")
