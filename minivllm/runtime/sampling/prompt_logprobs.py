"""Log-probabilities of a prompt's own tokens, for the sequences that asked for them.

A model says at every position what comes next; generation uses the last position of a prompt alone,
and here the others are used, too: the row of token p judges token p + 1. That takes the LM head
over all of them, so it is done for those who asked, a few rows at a time.

The easy thing to get wrong is a chunk. The row that judges the first token of a chunk was the last
of the chunk before, so each step tells of the tokens *after* its rows, and a prompt cut in chunks
loses none of them.
"""

from collections.abc import Callable

import torch

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.outputs import PromptTokenLogprob
from minivllm.runtime.sampling.sampler import token_logprobs

_ROWS_AT_ONCE = 64
"""Rows of logits in memory at a time: 12 MB of them for a vocabulary of 49,152."""


def prompt_logprobs(
    plan: SchedulerOutput,
    hidden: torch.Tensor,
    compute_logits: Callable[[torch.Tensor], torch.Tensor],
) -> list[PromptTokenLogprob]:
    """hidden: [num_tokens, hidden_size] of the plan's tokens; compute_logits: rows of it ->
    [num_rows, vocab_size]
    """
    found: list[PromptTokenLogprob] = []
    first_row = 0
    for item in plan.scheduled:
        sequence = item.sequence
        if sequence.judges_prompt:
            # The token after the last row may be the first output: that one is the sampler's.
            end = min(item.start + item.num_tokens, sequence.num_prompt_tokens - 1)
            for start in range(item.start, end, _ROWS_AT_ONCE):
                stop = min(start + _ROWS_AT_ONCE, end)
                row = first_row + start - item.start
                logits = compute_logits(hidden[row : row + stop - start])
                found += [
                    PromptTokenLogprob(
                        sequence.seq_id,
                        position + 1,
                        token_logprobs(
                            logits[position - start],
                            sequence.token_ids[position + 1],
                            sequence.request.params.prompt_logprobs,
                        ),
                    )
                    for position in range(start, stop)
                ]
        first_row += item.num_tokens
    return found
