"""`Request` and `Sequence`: what the scheduler moves about.

A request is what a caller sent; a sequence is one stream of tokens that grows from its prompt and
owns one block table. vLLM V1 folds the two into one; its paper and V0 keep them apart, because
parallel samples and beams are several sequences of one request that share blocks, and so do we.

Knows nothing of tensors, text or time. The easy thing to get wrong is to ask "is this a prefill?"
by looking at the output: after a preemption a sequence with output tokens prefills again. Nothing
here stores a phase; it follows from `num_computed_tokens` alone.

Source: vLLM `vllm/v1/request.py`.
"""

from enum import IntEnum

from minivllm.core.block_pool import KVCacheBlock
from minivllm.events.types import DeferReason
from minivllm.sampling_params import RequestOutputKind, SamplingParams


class RequestStatus(IntEnum):
    """A sequence's state. Everything over PREEMPTED is final."""

    WAITING = 0
    RUNNING = 1
    PREEMPTED = 2
    FINISHED_STOPPED = 3
    FINISHED_LENGTH_CAPPED = 4
    FINISHED_ABORTED = 5
    FINISHED_PRUNED = 6
    """A beam that its search gave up (vLLM has no such state: there a beam is a request)."""

    @property
    def is_finished(self) -> bool:
        return self > _LAST_UNFINISHED

    @property
    def finish_reason(self) -> str | None:
        """OpenAI's word for it; None while unfinished."""
        return _FINISH_REASONS.get(self)


# Looking up a member of an enum costs several times what comparing it does.
_LAST_UNFINISHED = RequestStatus.PREEMPTED
_FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
}


class Sequence:
    """One stream of tokens: a prompt, what was generated after it, and where its K/V lie."""

    __slots__ = (
        "block_hashes",
        "block_table",
        "deferred",
        "index",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_hashed_blocks",
        "num_preemptions",
        "num_prompt_tokens",
        "num_tokens",
        "request",
        "seq_id",
        "slot",
        "status",
        "stop_reason",
        "token_ids",
    )

    def __init__(self, request: "Request", index: int, token_ids: list[int]) -> None:
        self.request = request
        self.index = index
        """Which of the request's sequences this is; with the request's seed it keys the
        sampling.
        """
        self.seq_id = f"{request.request_id}.{index}"
        self.status = RequestStatus.WAITING
        self.token_ids = token_ids
        """Prompt and output in one list, so that recomputing after a preemption needs no special
        case.
        """
        self.num_tokens = len(token_ids)
        self.num_prompt_tokens = len(request.prompt_token_ids)
        self.num_computed_tokens = 0
        """How many tokens' keys and values are in the cache, counting the step being planned."""
        self.num_cached_tokens = 0
        """How many of them the prefix cache gave at the last admission: those are never written
        again.
        """
        self.num_preemptions = 0
        self.stop_reason: int | str | None = None

        # Written by the KV cache manager alone.
        self.block_table: list[KVCacheBlock] = []
        """Entry i holds the keys and values of tokens [i * block_size, (i + 1) * block_size)."""
        self.block_hashes: list[bytes] = []
        """The hash chain of the full blocks of `token_ids`; survives a preemption."""
        self.num_hashed_blocks = 0
        """How many entries of `block_table`, from the first, are in the prefix cache by their
        hash.
        """

        # Written by the scheduler alone.
        self.slot: int | None = None
        """The row of the batch that it has while it runs."""
        self.deferred: tuple[DeferReason, int, int] | None = None
        """Why it was not admitted the last time it was looked at: (reason, need, free)."""

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def judges_prompt(self) -> bool:
        """Whether the log-probabilities of the prompt are to be computed with this sequence."""
        return self.index == 0 and self.request.params.prompt_logprobs is not None

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    def append_token(self, token_id: int) -> None:
        self.token_ids.append(token_id)
        self.num_tokens += 1

    def fork(self) -> "Sequence":
        """A sibling with the same tokens so far. It has no blocks and no slot yet."""
        child = Sequence(self.request, self.request.next_index, list(self.token_ids))
        self.request.next_index += 1
        self.request.sequences.append(child)
        child.num_computed_tokens = self.num_computed_tokens
        child.num_cached_tokens = self.num_cached_tokens
        return child

    def __repr__(self) -> str:
        return (
            f"Sequence({self.seq_id}, {self.status.name},"
            f" {self.num_computed_tokens}/{self.num_tokens} tokens)"
        )


class Request:
    """What a caller asked for. Its sequences change; nothing else in it does."""

    __slots__ = (
        "arrival_number",
        "arrival_time",
        "cache_salt",
        "is_plain_greedy",
        "is_silent_until_finished",
        "kept_slots",
        "next_index",
        "num_cached_tokens",
        "num_logprobs",
        "num_unforked",
        "params",
        "priority",
        "prompt",
        "prompt_token_ids",
        "request_id",
        "sequences",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: list[int],
        params: SamplingParams,
        *,
        prompt: str | None = None,
        priority: int = 0,
        arrival_number: int = 0,
        cache_salt: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.prompt_token_ids = prompt_token_ids
        self.params = params
        self.priority = priority
        """Lower goes first (vLLM's sense); only the `priority` policy looks at it."""
        self.arrival_time = 0.0
        """Seconds on the engine's clock; the scheduler sets it when it queues the request."""
        self.arrival_number = arrival_number
        """Counts the engine's requests: the order of arrival even where two share one clock
        reading.
        """
        # To choose the best of several samples takes their log-probabilities, asked for or not.
        self.num_logprobs = (
            0 if params.logprobs is None and params.chooses_best else params.logprobs
        )
        """How many of the most likely tokens the sampler reports at each position; None for
        none.
        """
        self.is_plain_greedy = params.takes_best_logit and params.logprobs is None
        """Whether each token is the one with the best of the model's own logits, and no
        log-probabilities are asked for.
        """
        # Ranks change from step to step, so for the best of several samples a difference to the
        # last output means nothing.
        self.is_silent_until_finished = params.output_kind is RequestOutputKind.FINAL_ONLY or (
            params.output_kind is RequestOutputKind.DELTA and params.chooses_best
        )
        """Whether its caller gets no output before the end."""
        self.cache_salt = cache_salt
        """Requests with different salts never share a cached block."""
        self.num_unforked = params.num_sequences - 1
        """Sequences that are still to be forked: samples at the prompt's end, beams in the place of
        those that died.
        """
        self.kept_slots: list[int] = []
        """A heap: slots kept for them while the request runs."""
        self.next_index = 1
        self.num_cached_tokens = 0
        """Tokens that the prefix cache gave when the request was first admitted."""
        self.sequences = [Sequence(self, 0, list(prompt_token_ids))]

    @property
    def extra_keys(self) -> tuple[tuple[str, str], ...]:
        """What else than tokens its first block's name depends on
        (`block_math.hash_block_tokens`).
        """
        return () if self.cache_salt is None else (("cache_salt", self.cache_salt),)

    @property
    def is_finished(self) -> bool:
        # Every request is asked in every step, and the generator of an `all(...)` costs more than
        # the answers.
        for sequence in self.sequences:  # noqa: SIM110
            if not sequence.status.is_finished:
                return False
        return True
