"""`Watch` and `StepResult`: what a step should record besides its logits, and what it returns.

Plain data without torch, shared by `ModelRunner`, the engine, and the fake runners of tests and
benchmarks.
"""

from collections.abc import Collection
from collections.abc import Sequence as Seq
from typing import Any, NamedTuple

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.errors import RequestFailedError
from minivllm.outputs import PromptTokenLogprob


class TokenWatch(NamedTuple):
    """One sequence of a plan, and the layers and heads whose attention counts."""

    index: int
    """Index into the plan's sequences."""
    layer: int | None = None
    head: int | None = None
    """Layer and query head, from 0; None for the mean over all."""


class Watch(NamedTuple):
    """What to record during one forward pass, for the dashboard."""

    decodes: tuple[int, ...] = ()
    """Indices into the plan's sequences. For these, keep the inputs of one layer's attention."""
    attention_mass: bool = False
    """Whether to measure the share of attention on each block, at half the cost of attention."""
    tokens: TokenWatch | None = None
    """Of which sequence to measure the share of attention on each token."""


WATCH_NOTHING = Watch()


class TokenShares(NamedTuple):
    """The share of the last token's attention on each token of its sequence, itself included."""

    watch: TokenWatch
    weights: list[float]
    """In order of the tokens; the sum is 1."""
    num_layers: int
    num_heads: int
    """Query heads of each layer of the model."""


class DecodeSample(NamedTuple):
    """The inputs of one layer's attention for a sequence's new token, copied to the CPU."""

    layer: int
    num_tokens: int
    """Length of the context, including this step's token."""
    block_ids: list[int]
    """[num_blocks], the block table, as far as the context needs it."""
    query: Any
    """[num_heads, head_size], rotated"""
    keys: Any
    values: Any
    """[num_blocks, block_size, num_kv_heads, head_size]; undefined after the context's end."""
    window: int = 0
    """How many tokens the new token sees, itself included; 0 for all."""


class StepResult(NamedTuple):
    plan: SchedulerOutput
    """What ran: the whole plan, unless the model failed on a sequence."""
    logits: Any
    """[num_sampling, vocab_size] in float32, for the sequences that sample, in plan order.

    Only `sample_tokens` of the same runner reads them, so a runner can use any type.
    """
    t_prepare: float = 0.0
    """Seconds spent laying out the batch."""
    prompt_logprobs: Seq[PromptTokenLogprob] = ()
    """Log-probabilities of prompt tokens, for requests that asked for them."""
    attention_mass: Seq[list[float]] = ()
    """If watched: for each sequence in plan order, the share of attention on each block."""
    token_attention: TokenShares | None = None
    """If watched, and if the model has this layer and head."""
    tokens_per_expert: Seq[list[int]] = ()
    """If anything is watched: for each layer, the tokens that each of its experts got."""
    decode_samples: Seq[DecodeSample] = ()
    """One sample for each of `Watch.decodes`, in that order."""
    errors: Seq[tuple[Request, RequestFailedError]] = ()
    """The requests on which the model raised, even when they ran alone."""
    stranded: Seq[tuple[Sequence, Sequence]] = ()
    """Sequences that must be recomputed, as they read `unwritten` blocks, and the one to blame; the
    plan's last first.
    """
    unwritten: Collection[KVCacheBlock] = ()
    """Blocks that failed and stranded sequences should have written in this step."""
