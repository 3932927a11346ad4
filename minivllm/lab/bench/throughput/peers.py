"""The engines that take turns, with one interface: requests in, token ids out.

`MinivllmEngine` uses `LLM(...)` like a user. `TransformersPeer` calls `generate` in static batches
with left padding, sdpa attention and the default cache. `PeerProcess` runs vLLM or llama.cpp in a
child process with the peer's own Python (`peer_side/peer_main.py` explains the protocol). This
costs the peer one or two milliseconds per round, and rounds take seconds.

A peer gets the same token ids, dtype, device and number of threads, and full batches. It has no
end-of-sequence token, because masking it (`min_new_tokens`) would be more work.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol, Self

from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, BenchRequest
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

END_LIMIT_S = 10.0
_MAIN = Path(__file__).parent / "peer_side" / "peer_main.py"


class BenchEngine(Protocol):
    name: str

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        """Return greedy continuations of exactly `max_tokens` tokens, one for each request."""


class MinivllmEngine:
    """Our engine through its public API. Options that are not given have their defaults."""

    def __init__(self, model: str, dtype: str, name: str = "minivllm", **options: Any) -> None:
        self.name = name
        self.llm = LLM(model=model, dtype=dtype, **{"max_num_seqs": MAX_NUM_SEQS} | options)

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
        # A static batch runs to its longest output; tokens beyond `max_tokens` are not counted.
        rows = output[:, width:].tolist()
        return [row[: request.max_tokens] for row, request in zip(rows, batch, strict=True)]


class PeerProcess:
    """A `BenchEngine` in a child process. A context manager that ends the child."""

    def __init__(self, name: str, python: str, settings: dict[str, Any]) -> None:
        """Start the peer and wait until it has loaded its model."""
        self.name = name
        # Keep what the peer prints: if the peer fails, the error message quotes the last line.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `__exit__`)
        try:
            self._child = subprocess.Popen(
                [python, "-u", str(_MAIN)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                text=True,
                start_new_session=True,  # so that its own children can be killed, too
                env=os.environ | {"PYTHONPATH": ""},
            )
        except OSError as error:
            raise BenchError(
                f"--peer-python {python} is not a program: name the Python of an environment that"
                f" has {name}."
            ) from error
        try:
            ready = self._ask({"peer": name, **settings})
        except BaseException:
            self.__exit__()
            raise
        self.versions: dict[str, str] = ready["versions"]

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        prompts = [request.prompt_token_ids for request in requests]
        max_tokens = [request.max_tokens for request in requests]
        return self._ask({"prompts": prompts, "max_tokens": max_tokens})["outputs"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the child's answer. Raises `BenchError` if there is none, or if it is an error."""
        with contextlib.suppress(OSError):  # the child has ended: its output ends, too
            self._child.stdin.write(json.dumps(question) + "\n")
            self._child.stdin.flush()
        if not (line := self._child.stdout.readline()):
            self._words.seek(0)
            last = [word.strip() for word in self._words if word.strip()][-1:] or ["none."]
            raise BenchError(
                f"The process of {self.name} ended unexpectedly; its last output was:"
                f" {last[0][:300]}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.name} failed: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the child and every process that it has started."""
        with contextlib.suppress(OSError):
            self._child.stdin.close()  # the peer ends when its input ends
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(END_LIMIT_S)
        # Kill the group even after a normal end, because worker processes may still run.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._child.stdout.close()
        self._words.close()
