"""`RequestValidator`: the door. Whatever passes here can be served to its end.

Every check is made before anything is queued, allocated or emitted, and each refusal is one sentence
that says what to change. Every token id that a caller can send is range-checked here, on the host: an
id outside the vocabulary would index past a tensor's end and take the whole engine down with it.

(One more check, whether the KV cache could ever hold the request, is the scheduler's, who owns memory.)
"""

from collections.abc import Collection, Iterable

from minivllm.config import EngineConfig
from minivllm.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    InvalidRequestError,
    InvalidSamplingParamsError,
    PromptTooLongError,
    TokenOutOfVocabularyError,
)
from minivllm.sampling_params import SamplingParams


class RequestValidator:
    """Checks requests against one engine's limits."""

    def __init__(
        self, config: EngineConfig, vocab_size: int, eos_token_ids: frozenset[int], max_model_len: int
    ) -> None:
        self._config = config
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._max_model_len = max_model_len

    def check(
        self,
        request_id: str,
        token_ids: list[int],
        params: SamplingParams,
        priority: int,
        unfinished: Collection[str],
        max_num_seqs: int,
    ) -> None:
        """Raise the `InvalidRequestError` that applies, if any. `max_num_seqs`: as it is now."""
        if not isinstance(request_id, str) or not request_id:
            raise InvalidRequestError(f"The request id must be a non-empty string; got {request_id!r}.")
        if request_id in unfinished:
            raise DuplicateRequestError(
                f"Request id {request_id!r} is in use by an unfinished request: choose another, or wait for it to end."
            )
        if not isinstance(params, SamplingParams):
            raise InvalidSamplingParamsError(f"params must be a SamplingParams; got {type(params).__name__}.")
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise InvalidRequestError(f"priority must be a whole number, lower goes first; got {priority!r}.")
        if priority != 0 and self._config.scheduling_policy != "priority":
            raise InvalidRequestError(
                f"priority is {priority} but the engine serves first come, first served: "
                "send 0 (priorities need an engine that was started with scheduling_policy='priority')."
            )
        if params.num_sequences > max_num_seqs:
            raise InvalidSamplingParamsError(
                f"The request asks for {params.num_sequences} sequences (n, best_of, beam_width) and the engine runs at most "
                f"{max_num_seqs} at once: ask for fewer (the engine's max_num_seqs is the limit)."
            )
        if params.num_sequences > 1 and self._config.kv_cache_allocator == "contiguous":
            raise InvalidSamplingParamsError(
                f"The request asks for {params.num_sequences} sequences (n, best_of, beam_width), which share blocks, and the "
                "contiguous allocator cannot share: ask for one (more need an engine with kv_cache_allocator='paged')."
            )
        self._check_prompt(request_id, token_ids)
        self._check_ids("logit_bias", params.logit_bias or ())
        self._check_ids("stop_token_ids", params.stop_token_ids)
        if params.min_tokens and len(self._eos_token_ids.union(params.stop_token_ids)) >= self._vocab_size:
            raise InvalidSamplingParamsError(
                "stop_token_ids leaves no token that may come before min_tokens: name fewer ids or set min_tokens to 0."
            )

    def _check_prompt(self, request_id: str, token_ids: list[int]) -> None:
        if not token_ids:
            raise EmptyPromptError(f"Request {request_id!r} has an empty prompt: send at least one token.")
        if len(token_ids) >= self._max_model_len:
            raise PromptTooLongError(
                f"Request {request_id!r} has {len(token_ids)} prompt tokens, but max_model_len is "
                f"{self._max_model_len} and one output token must fit too: shorten the prompt to "
                f"{self._max_model_len - 1} tokens, or use an engine with a larger max_model_len."
            )
        self._check_ids("prompt_token_ids", token_ids)

    def _check_ids(self, name: str, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id < self._vocab_size:
                raise TokenOutOfVocabularyError(
                    f"{name} holds {token_id!r}, which is no token id of this model: use 0 to {self._vocab_size - 1}."
                )
