"""The engines of this process with one interface: requests in, token ids out.

`MinivllmEngine` uses `LLM(...)` like a user. `TransformersPeer` calls `generate` in static batches
with left padding, sdpa attention and the default cache.

A peer gets the same token ids, dtype, device and number of threads, and full batches. It has no
end-of-sequence token: masking that token (`min_new_tokens`) would be more work, and the tokens
would differ.
"""

from pathlib import Path
from typing import Any, Protocol

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams


class BenchEngine(Protocol):
    name: str

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        """Return greedy continuations of exactly `max_tokens` tokens, one for each request."""


class MinivllmEngine:
    """Our engine through its public API. Options that are not given have their defaults."""

    def __init__(
        self, model: str, dtype: str, device: str, *, name: str = "minivllm", **options: Any
    ) -> None:
        self.name = name
        options = {"max_num_seqs": MAX_NUM_SEQS} | options
        self.llm = LLM(model=model, dtype=dtype, device=device, **options)

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        outputs = self.llm.generate(
            [{"prompt_token_ids": request.prompt_token_ids} for request in requests],
            [
                SamplingParams(temperature=0, max_tokens=request.max_tokens, ignore_eos=True)
                for request in requests
            ],
            use_tqdm=False,
        )
        return [output.outputs[0].token_ids for output in outputs]


class TransformersPeer:
    """`AutoModelForCausalLM.from_pretrained`, in static batches in order of the requests."""

    name = "transformers"

    def __init__(
        self, checkpoint: Path, dtype: str, device: str, batch_size: int = MAX_NUM_SEQS
    ) -> None:
        """checkpoint: a directory; without weights, they are random"""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
        from transformers.utils import logging

        logging.disable_progress_bar()
        options = {"dtype": getattr(torch, dtype), "attn_implementation": "sdpa"}
        if any(checkpoint.glob("*.safetensors")):
            model = AutoModelForCausalLM.from_pretrained(checkpoint, **options)
        else:
            with torch.device(device):
                config = AutoConfig.from_pretrained(checkpoint)
                model = AutoModelForCausalLM.from_config(config, **options)
        self._model, self._batch_size = model.to(device).eval(), batch_size
        # Without the checkpoint's own defaults (temperature, penalties, end-of-sequence).
        self._model.generation_config = GenerationConfig(
            do_sample=False, eos_token_id=None, pad_token_id=0
        )

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        size = self._batch_size
        batches = (requests[i : i + size] for i in range(0, len(requests), size))
        return [token_ids for batch in batches for token_ids in self._generate_batch(batch)]

    def _generate_batch(self, batch: list[BenchRequest]) -> list[list[int]]:
        import torch

        width = max(len(request.prompt_token_ids) for request in batch)
        pads = [width - len(request.prompt_token_ids) for request in batch]
        # [len(batch), width], padded on the left so that all prompts end at the same column.
        prompts = (request.prompt_token_ids for request in batch)
        input_ids = torch.tensor(
            [[0] * pad + prompt for pad, prompt in zip(pads, prompts, strict=True)]
        )
        attention_mask = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
        num_new = max(request.max_tokens for request in batch)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=input_ids.to(self._model.device),
                attention_mask=attention_mask.to(self._model.device),
                max_new_tokens=num_new,
            )
        if output.shape != (len(batch), width + num_new):
            raise BenchError(
                f"transformers returned {output.shape[1] - width} tokens instead of {num_new}: its"
                " speed cannot be compared."
            )
        # A static batch runs to its longest output; tokens beyond `max_tokens` are not counted.
        rows = output[:, width:].tolist()
        return [row[: request.max_tokens] for row, request in zip(rows, batch, strict=True)]
