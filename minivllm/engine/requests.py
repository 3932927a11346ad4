"""Read prompts and check requests, before anything is queued, allocated or emitted.

`InputProcessor` checks all token ids, because an id outside the vocabulary would index past the
end of a tensor and crash the engine.

Source: vLLM `vllm/v1/engine/input_processor.py`; the forms of a prompt: `vllm/inputs/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from operator import index
from reprlib import repr as short_repr
from typing import NamedTuple, NotRequired, TypedDict

from minivllm import runtime, structured_output
from minivllm.clock import Clock
from minivllm.config import EngineConfig
from minivllm.core.admission import refuse_if_too_large
from minivllm.core.request import Grammar, Request
from minivllm.core.scheduler import Scheduler
from minivllm.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    InvalidRequestError,
    InvalidSamplingParamsError,
    PromptTooLongError,
    TokenOutOfVocabularyError,
)
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams


class TextPrompt(TypedDict):
    """A prompt as text, which the engine tokenizes."""

    prompt: str
    cache_salt: NotRequired[str]
    """Prompts with different salts never share a block, so response times tell no secrets."""


class TokensPrompt(TypedDict):
    """A prompt as token ids. `prompt` is its text, only for display."""

    prompt_token_ids: list[int]
    prompt: NotRequired[str]
    cache_salt: NotRequired[str]


Prompt = str | TextPrompt | TokensPrompt


def read_prompt(prompt: Prompt, tokenizer: runtime.Tokenizer) -> TokensPrompt:
    """Return token ids, text and salt of a prompt. Raise `InvalidRequestError` if it is invalid."""
    fields = prompt if isinstance(prompt, dict) else {"prompt": prompt}
    if unknown := sorted(map(str, fields.keys() - TokensPrompt.__annotations__.keys())):
        known = ", ".join(TokensPrompt.__annotations__)
        raise InvalidRequestError(f"A prompt has no field {unknown[0]!r}: its fields are {known}.")
    text, salt = fields.get("prompt"), fields.get("cache_salt")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise InvalidRequestError(f"cache_salt must be a non-empty string; got {short_repr(salt)}.")
    if "prompt_token_ids" in fields:
        token_ids = _as_token_ids(fields["prompt_token_ids"])
    elif isinstance(text, str):
        token_ids = tokenizer.encode(text)
    else:
        # The usual mistake is a bare list of ids, which can be long.
        raise InvalidRequestError(
            'A prompt must be a string, {"prompt": text} or {"prompt_token_ids": ids}; got'
            f" {short_repr(prompt)}."
        )
    return {"prompt_token_ids": token_ids, "prompt": text, "cache_salt": salt}


def _as_token_ids(given: object) -> list[int]:
    """Convert any iterable of whole numbers, such as a numpy array, to a list of ints."""
    try:
        token_ids = list(given)
        # `index` accepts every integer type and no float. A bool is surely a mistake.
        if not any(isinstance(value, bool) for value in token_ids):
            return [index(value) for value in token_ids]
    except TypeError:
        pass
    text = f"prompt_token_ids must be a list of whole numbers; got {given!r:.200}."
    raise InvalidRequestError(text)


class InputProcessor(NamedTuple):
    config: EngineConfig
    tokenizer: runtime.Tokenizer
    grammars: Grammars
    scheduler: Scheduler

    def process_inputs(
        self, request_id: str, prompt: Prompt, params: SamplingParams, priority: int
    ) -> Request:
        """Return the request. Raise an `InvalidRequestError` if it can never be served."""
        if not isinstance(params, SamplingParams):
            raise InvalidSamplingParamsError(
                f"params must be a SamplingParams; got {type(params).__name__}."
            )
        if not isinstance(request_id, str) or not request_id:
            raise InvalidRequestError(
                f"A request id must be a non-empty string; got {request_id!r}."
            )
        if request_id in self.scheduler.requests:
            raise DuplicateRequestError(
                f"Request id {request_id!r} is in use by an unfinished request: choose another id."
            )
        if params.use_beam_search and self.config.speculative_config is not None:
            raise InvalidSamplingParamsError(
                "Beam search ranks all candidates of each step, so drafts cannot stand in for it:"
                " sample instead, or use an engine without speculative_config."
            )
        self._check_priority(priority)
        self._check_num_sequences(params.num_sequences)
        self._check_ids("logit_bias", params.logit_bias or ())
        self._check_ids("stop_token_ids", params.stop_token_ids)
        read = read_prompt(prompt, self.tokenizer)
        self._check_prompt(request_id, read["prompt_token_ids"])
        grammar = self.grammars.prepare(params.structured_outputs)
        request = Request(request_id, params=params, priority=priority, grammar=grammar, **read)
        refuse_if_too_large(request, self.scheduler.kv_cache_manager, self.scheduler.max_model_len)
        return request

    def _check_priority(self, priority: int) -> None:
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise InvalidRequestError(f"priority must be a whole number; got {priority!r}.")
        if priority != 0 and self.config.scheduling_policy != "priority":
            raise InvalidRequestError(
                f"priority is {priority}: send 0, or use scheduling_policy='priority'."
            )

    def _check_num_sequences(self, num_sequences: int) -> None:
        max_num_seqs = self.scheduler.slots.limit  # may be lower than the configured limit
        asks = f"The request asks for {num_sequences} sequences (n, best_of, beam_width), but the"
        if num_sequences > max_num_seqs:
            raise InvalidSamplingParamsError(
                f"{asks} engine runs at most {max_num_seqs} at once: ask for fewer."
            )
        if num_sequences > 1 and self.config.kv_cache_allocator == "contiguous":
            raise InvalidSamplingParamsError(
                f"{asks} contiguous allocator cannot share blocks: ask for one."
            )

    def _check_prompt(self, request_id: str, token_ids: list[int]) -> None:
        max_model_len = self.scheduler.max_model_len
        if not token_ids:
            raise EmptyPromptError(f"Request {request_id!r} has an empty prompt: send a token.")
        if len(token_ids) >= max_model_len:
            raise PromptTooLongError(
                f"Request {request_id!r} has {len(token_ids)} prompt tokens, but max_model_len is"
                f" {max_model_len} and must also hold one output token: shorten the prompt to"
                f" {max_model_len - 1} tokens, or use an engine with a larger max_model_len."
            )
        self._check_ids("prompt_token_ids", token_ids)

    def _check_ids(self, name: str, token_ids: Iterable[int]) -> None:
        vocab_size = self.tokenizer.vocab_size
        for token_id in token_ids:
            if not 0 <= token_id < vocab_size:
                raise TokenOutOfVocabularyError(
                    f"{name} contains {token_id!r}, which is not a token id of this model: use 0"
                    f" to {vocab_size - 1}."
                )


class Grammars:
    """Checks the grammars of requests and has them compiled. Imports nothing before the first."""

    def __init__(self, tokenizer: runtime.Tokenizer, clock: Clock) -> None:
        self._tokenizer, self._clock = tokenizer, clock
        self._compiling: list[structured_output.StructuredOutputGrammar] = []

    def prepare(self, params: StructuredOutputsParams | None) -> Grammar | None:
        """Check and start to compile the grammar of a request to come; None without one.

        Any thread may call this: a large grammar takes up to half a second. Raises
        `InvalidSamplingParamsError` for a grammar that is invalid or has no end.
        """
        if params is None:
            return None
        grammar = self._manager.prepare(params)
        if not grammar.settle():
            self._compiling.append(grammar)
        return grammar

    def settle(self) -> None:
        """Note which grammars are compiled by now. Called in the engine's thread before a phase."""
        if self._compiling:  # another thread may append meanwhile
            for grammar in [grammar for grammar in self._compiling if grammar.settle()]:
                self._compiling.remove(grammar)

    @cached_property  # two threads may make two, which does no harm
    def _manager(self) -> structured_output.StructuredOutputManager:
        # With a virtual clock, no event may depend on how long compiling takes.
        return structured_output.StructuredOutputManager(
            self._tokenizer, in_background=self._clock.name != "virtual"
        )
