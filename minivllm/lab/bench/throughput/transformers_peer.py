"""`TransformersPeer`: transformers, with left padding, sdpa attention and the default cache."""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging

from minivllm.lab.bench.throughput.workloads import BenchRequest


class TransformersPeer:
    """`AutoModelForCausalLM.from_pretrained`, in static batches in order of the requests."""

    name = "transformers"

    def __init__(self, checkpoint: Path, dtype: str, device: str, batch_size: int) -> None:
        """checkpoint: a directory; without weights, they are random"""
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
        width = max(len(request.prompt_token_ids) for request in batch)
        pads = [width - len(request.prompt_token_ids) for request in batch]
        # [len(batch), width], padded on the left so that all prompts end at the same column.
        rows = zip(pads, batch, strict=True)
        prompts = [[0] * pad + request.prompt_token_ids for pad, request in rows]
        mask = [[0] * pad + [1] * (width - pad) for pad in pads]
        input_ids, attention_mask = torch.tensor([prompts, mask]).to(self._model.device)
        num_new = max(request.max_tokens for request in batch)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=input_ids, attention_mask=attention_mask, max_new_tokens=num_new
            )
        # A static batch runs to its longest output; tokens beyond `max_tokens` are not counted.
        rows = output[:, width:].tolist()
        return [row[: request.max_tokens] for row, request in zip(rows, batch, strict=True)]
