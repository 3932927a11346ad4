"""`Watch` and `StepResult`: what a model runner is asked for beside a plan, and what it answers.

Plain data without torch: the engine and the stand-ins for its model share it with `ModelRunner`.
`minivllm.engine.runner` has the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minivllm.outputs import PromptTokenLogprob
    from minivllm.runtime.attention.xray import DecodeSample


@dataclass(frozen=True, slots=True)
class Watch:
    """What somebody wants to see of one forward pass."""

    decodes: tuple[int, ...] = ()
    """Indices into the plan's sequences: keep what the attention of one layer reads for these
    decodes.
    """
    attention_mass: bool = False
    """Measure the share of attention on each block. Costs about half of the attention again."""


WATCH_NOTHING = Watch()


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one forward pass gave."""

    logits: Any
    """Of the sequences that sample, in plan order: [num_sampling, vocab_size] in float32.

    Only `sample_tokens` of the same runner reads them, so a stand-in may put anything here.
    """
    t_prepare: float = 0.0
    """Seconds that it took to lay out the batch."""
    prompt_logprobs: Seq[PromptTokenLogprob] = ()
    """What the model thought of tokens of prompts, where a request asked."""
    attention_mass: Seq[list[float]] = ()
    """If watched: for each sequence in plan order, the share of attention on each of its blocks."""
    decode_samples: Seq[DecodeSample] = ()
    """One for each of `Watch.decodes`, in that order."""
