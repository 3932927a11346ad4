"""`Request` and `Sequence`: what the scheduler schedules.

A request is what a caller sent. A sequence is one stream of tokens with its own block table.
Parallel samples and beams are several sequences of one request that share blocks. No phase is
stored: whether a sequence is in prefill follows from `num_computed_tokens` alone.

Source: vLLM `vllm/v1/request.py`.
"""

from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from minivllm.core.block_pool import KVCacheBlock
from minivllm.events.types import DeferReason
from minivllm.sampling_params import RequestOutputKind, SamplingParams


class Grammar(Protocol):
    """What the core reads of a request's grammar; sampler and proposers ask it for tokens."""

    is_compiled: bool

    def is_terminated(self, sequence: "Sequence") -> bool: ...


class RequestStatus(IntEnum):
    """A sequence's state. All states after WAITING_FOR_REMOTE_KVS are final."""

    WAITING = 0
    RUNNING = 1
    PREEMPTED = 2
    WAITING_FOR_REMOTE_KVS = 3
    """Its blocks are being loaded from a second memory."""
    FINISHED_STOPPED = 4
    FINISHED_LENGTH_CAPPED = 5
    FINISHED_ABORTED = 6
    FINISHED_PRUNED = 7
    """A beam that its search dropped. vLLM has no such state: there, a beam is a request."""

    @property
    def finish_reason(self) -> str | None:
        """OpenAI's word for a final state; None for an unfinished sequence or a pruned beam."""
        return _FINISH_REASONS.get(self)


# Looking up an enum member costs several times as much as comparing it.
_LAST_UNFINISHED = RequestStatus.WAITING_FOR_REMOTE_KVS
_FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
}


@dataclass(slots=True, eq=False, repr=False)
class Sequence:
    """One stream of tokens (a prompt and its output) and the blocks with their keys and values."""

    request: "Request"
    index: int
    """Number within the request, from 0. The random numbers depend on it and on the seed."""
    token_ids: list[int]
    """Prompt and output in one list, so recomputing after a preemption needs no extra code."""
    seq_id: str = field(init=False)
    status: RequestStatus = RequestStatus.WAITING
    num_tokens: int = field(init=False)
    num_prompt_tokens: int = field(init=False)
    num_computed_tokens: int = 0
    """Tokens whose keys and values are in the cache, counting those of the planned step."""
    num_cached_tokens: int = 0
    """Tokens found in the prefix cache, or loaded, at the last admission. They are not written."""
    num_preemptions: int = 0
    stop_reason: int | str | None = None

    # Written only by the KV cache manager.
    block_table: list[KVCacheBlock] = field(default_factory=list)
    """Entry i holds the keys and values of tokens [i * block_size, (i + 1) * block_size)."""
    block_hashes: list[bytes] = field(default_factory=list)
    """Hash chain of the full blocks of `token_ids`. A preemption does not clear it."""

    # Written only by the scheduler.
    slot: int | None = None
    """Row of the batch while the sequence runs or loads its blocks, else None."""
    deferred: tuple[DeferReason, int, int] | None = None
    """Why the sequence was not admitted in the last attempt: (reason, need, free)."""

    def __post_init__(self) -> None:
        self.seq_id = f"{self.request.request_id}.{self.index}"
        self.num_tokens = len(self.token_ids)
        self.num_prompt_tokens = len(self.request.prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        return self.status > _LAST_UNFINISHED

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for its grammar or its blocks, so that sequences behind it pass."""
        return self.request.awaits_grammar or self.status is RequestStatus.WAITING_FOR_REMOTE_KVS

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether this sequence computes the log-probabilities of the prompt."""
        return self.index == 0 and self.request.params.prompt_logprobs is not None

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    def append_token(self, token_id: int) -> None:
        self.token_ids.append(token_id)
        self.num_tokens += 1

    def fork(self) -> "Sequence":
        """Return a new sibling that has the same tokens but no blocks and no slot."""
        child = Sequence(self.request, self.request.next_index, list(self.token_ids))
        self.request.next_index += 1
        self.request.sequences.append(child)
        child.num_computed_tokens = self.num_computed_tokens
        child.num_cached_tokens = self.num_cached_tokens
        return child

    def __repr__(self) -> str:
        tokens = f"{self.num_computed_tokens}/{self.num_tokens} tokens"
        return f"Sequence({self.seq_id}, {self.status.name}, {tokens})"


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """What a caller asked for. After arrival, only its sequences and bookkeeping change."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    _: KW_ONLY
    prompt: str | None = None
    priority: int = 0
    """Lower is first; only the `priority` policy uses it."""
    arrival_number: int = 0
    """Number in the order of arrival, because arrival times may be equal."""
    cache_salt: str | None = None
    """Requests with different salts never share a cached block."""
    grammar: Grammar | None = None
    """What the output must fit, if `params` has `structured_outputs`."""
    arrival_time: float = 0.0
    """Seconds on the engine's clock, set by the scheduler when it queues the request."""
    num_logprobs: int | None = field(init=False)
    """How many top tokens the sampler reports at each position; None for no report."""
    is_plain_greedy: bool = field(init=False)
    """Whether each token is the argmax of the unchanged logits, without log-probabilities."""
    is_silent_until_finished: bool = field(init=False)
    num_unforked: int = field(init=False)
    """How many forks are still to come: samples after the prompt, or beams."""
    kept_slots: list[int] = field(default_factory=list)
    """Slots kept for the `num_unforked` forks while the request runs. A heap."""
    next_index: int = 1
    num_cached_tokens: int = 0
    """Tokens found in the prefix cache at the first admission."""
    sequences: list[Sequence] = field(init=False)

    def __post_init__(self) -> None:
        params = self.params
        self.is_plain_greedy = params.takes_best_logit and params.logprobs is None
        # To choose the best of several samples, the engine needs their log-probabilities, even if
        # the caller does not.
        needs_sums = params.logprobs is None and params.chooses_best
        self.num_logprobs = 0 if needs_sums else params.logprobs
        # The ranks of the best samples change from step to step, so a delta to the last output
        # would be meaningless.
        self.is_silent_until_finished = params.output_kind is RequestOutputKind.FINAL_ONLY or (
            params.output_kind is RequestOutputKind.DELTA and params.chooses_best
        )
        self.num_unforked = params.num_sequences - 1
        self.sequences = [Sequence(self, 0, list(self.prompt_token_ids))]

    @property
    def extra_keys(self) -> tuple[tuple[str, str], ...]:
        """What the first block's hash depends on besides tokens, as (kind, value) pairs."""
        return () if self.cache_salt is None else (("cache_salt", self.cache_salt),)

    @property
    def awaits_grammar(self) -> bool:
        """Whether the request cannot run yet, because its grammar is not compiled."""
        return self.grammar is not None and not self.grammar.is_compiled

    @property
    def is_finished(self) -> bool:
        # This runs for every request in every step; a generator would cost more than the checks.
        for sequence in self.sequences:  # noqa: SIM110
            if not sequence.is_finished:
                return False
        return True


class Stop(NamedTuple):
    status: RequestStatus
    stop_reason: int | str | None = None
    """The stop token id or the stop string; None for end-of-sequence, grammar and length."""


def check_stop(
    sequence: Sequence, eos_token_ids: frozenset[int], max_model_len: int
) -> Stop | None:
    """Return how the last token of `sequence` ends the sequence, or None if it continues.

    Before `min_tokens`, only the length limits do. `minivllm.engine.stop_strings` finds stop
    *strings* in text. Source: vLLM `vllm/v1/core/sched/utils.py`.
    """
    params = sequence.request.params
    token_id = sequence.token_ids[-1]
    num_output_tokens = sequence.num_output_tokens
    if num_output_tokens >= params.min_tokens:
        if token_id in eos_token_ids and not params.ignore_eos:
            return Stop(RequestStatus.FINISHED_STOPPED)
        if token_id in params.stop_token_ids:
            return Stop(RequestStatus.FINISHED_STOPPED, token_id)
    grammar = sequence.request.grammar
    if grammar is not None and grammar.is_terminated(sequence):
        return Stop(RequestStatus.FINISHED_STOPPED)
    if num_output_tokens >= params.max_tokens or sequence.num_tokens >= max_model_len:
        return Stop(RequestStatus.FINISHED_LENGTH_CAPPED)
    return None
