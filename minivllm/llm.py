"""`LLM`: offline generation with vLLM's interface, for scripts, tests and notebooks.

    llm = LLM(model="smollm2")
    params = SamplingParams(temperature=0, max_tokens=16)
    for out in llm.generate(["The capital of France is"], params):
        print(out.outputs[0].text)

`LLM` only loops over the engine: queue all prompts, run steps until all requests have finished, and
return the results in the order of the prompts. If a prompt is refused, all queued prompts are
aborted. What a step does is in `engine/core.py`.

Source: vLLM `vllm/entrypoints/llm.py`.
"""

import dataclasses
import sys
from collections.abc import Sequence as Seq
from copy import copy
from itertools import count
from typing import Any, Literal

from tqdm import tqdm

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.requests import Prompt
from minivllm.errors import ConfigError, InvalidRequestError
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

ChatMessage = dict[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


class LLM:
    """A loaded model that answers lists of prompts.

    - `model`: an alias, a directory, a `.gguf` file or a Hugging Face id.
    - `options`: the other fields of `EngineConfig`, by name: `LLM(dtype="float32")`.

    Loading takes seconds. Raises `ConfigError` for an unknown or invalid option, and a `ModelError`
    if the model cannot be loaded.
    """

    llm_engine: LLMEngine
    """The engine that does the work, to `subscribe` to events or to `inspect` the state."""

    def __init__(self, model: str = "smollm2", **options: Any) -> None:
        known = sorted(field.name for field in dataclasses.fields(EngineConfig))
        if unknown := sorted(set(options) - {*known}):
            raise ConfigError(f"Unknown option {unknown[0]!r}: the options are {', '.join(known)}.")
        self.llm_engine = LLMEngine.from_config(EngineConfig(model=model, **options))
        self._request_ids = count()

    def generate(
        self,
        prompts: Prompt | Seq[Prompt],
        sampling_params: SamplingParams | Seq[SamplingParams] | None = None,
        *,
        priority: Seq[int] | None = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete each prompt. Returns a finished `RequestOutput` for each, in the same order.

        - `prompts`: a prompt or a list of prompts. A prompt is text, `{"prompt": text}` or
          `{"prompt_token_ids": ids}`.
        - `sampling_params`: one for all prompts, or a list with one for each; by default
          `SamplingParams()`.
        - `priority`: a number for each prompt, lower is first; only for
          `scheduling_policy="priority"`.
        - `use_tqdm`: show a progress bar on standard error, if it is a terminal.

        If a prompt can never be served, raises an `InvalidRequestError` for the first such prompt
        and runs no prompt. If a request fails, raises a `RequestFailedError` and aborts the others.
        """
        prompts = [prompts] if isinstance(prompts, (str, dict)) else list(prompts)
        params = _one_each(sampling_params or SamplingParams(), "sampling_params", prompts)
        priorities = _one_each(0 if priority is None else priority, "priority", prompts)
        request_ids: list[str] = []
        try:
            for prompt, own, rank in zip(prompts, params, priorities, strict=True):
                request_id = str(next(self._request_ids))
                # Intermediate outputs are never read, so do not build them.
                own = copy(own)  # `replace` would check it again
                object.__setattr__(own, "output_kind", RequestOutputKind.FINAL_ONLY)
                self.llm_engine.add_request(request_id, prompt, own, rank)
                request_ids.append(request_id)
            finished = self._run(len(request_ids), use_tqdm)
        except BaseException:
            for request_id in request_ids:
                self.llm_engine.abort_request(request_id)
            raise
        return [finished[request_id] for request_id in request_ids]

    def chat(
        self,
        messages: Seq[ChatMessage] | Seq[Seq[ChatMessage]],
        sampling_params: SamplingParams | Seq[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Return the assistant's next message in one or several conversations.

        - `messages`: a list of `{"role": ..., "content": ...}`, or a list of such lists. The
          model's own chat template turns each conversation into a prompt.
        - `sampling_params`, `use_tqdm`: as for `generate`.

        Returns a finished `RequestOutput` for each conversation, in the same order. Raises the same
        errors as `generate`, and an `InvalidRequestError` if there are no messages or the template
        refuses the messages.
        """
        messages = list(messages)
        if not messages:
            raise InvalidRequestError("messages is empty: send at least one message.")
        conversations = [messages] if isinstance(messages[0], dict) else messages
        template = self.llm_engine.tokenizer.apply_chat_template
        prompts = [{"prompt_token_ids": template(list(each))} for each in conversations]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def beam_search(
        self,
        prompts: Prompt | Seq[Prompt],
        *,
        beam_width: int,
        max_tokens: int = 16,
        length_penalty: float = 1.0,
        early_stopping: bool | Literal["never"] = False,
        ignore_eos: bool = False,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Search the `beam_width` most probable texts for each prompt, best first.

        The texts are in `outputs`. The tokens equal those of
        `transformers.generate(num_beams=beam_width)`.

        - `prompts`, `use_tqdm`: as for `generate`.
        - `beam_width`: number of beams, 2 or more.
        - `max_tokens`: maximum number of output tokens of each beam.
        - `length_penalty`, `early_stopping`, `ignore_eos`: see `SamplingParams`.

        `cumulative_logprob` is the sum of the log-probabilities of an output's tokens, without the
        penalty. Raises the same errors as `generate`, and an `InvalidSamplingParamsError` for an
        invalid parameter.
        """
        params = SamplingParams(
            beam_width=beam_width, max_tokens=max_tokens, length_penalty=length_penalty,
            early_stopping=early_stopping, ignore_eos=ignore_eos,
        )  # fmt: skip
        return self.generate(prompts, dataclasses.replace(params, n=beam_width), use_tqdm=use_tqdm)

    def _run(self, num_requests: int, use_tqdm: bool) -> dict[str, RequestOutput]:
        finished: dict[str, RequestOutput] = {}
        quiet = not (use_tqdm and sys.stderr.isatty())
        with tqdm(total=num_requests, unit="request", disable=quiet) as bar:
            while self.llm_engine.has_unfinished_requests():
                for output in self.llm_engine.step():
                    if output.error is not None:
                        raise output.error_type(output.error)
                    if output.finished:
                        finished[output.request_id] = output
                        bar.update()
        return finished


def _one_each(given: Any, name: str, prompts: list[Prompt]) -> list[Any]:
    kind = int if name == "priority" else SamplingParams
    each = [given] * len(prompts) if isinstance(given, kind) else given
    if not isinstance(each, (list, tuple)) or not all(isinstance(value, kind) for value in each):
        raise InvalidRequestError(
            f"{name} must be {kind.__name__} or a list of them; got {given!r}."
        )
    if len(each) != len(prompts):
        raise InvalidRequestError(
            f"{name} has {len(each)} entries for {len(prompts)} prompts: give one, or one for each."
        )
    return list(each)
