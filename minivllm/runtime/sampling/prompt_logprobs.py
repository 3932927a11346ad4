"""Log-probabilities of a prompt's own tokens, for sequences that request them.

The row of token p predicts token p + 1. Generation uses only the last row of a prompt; here all
rows go through the LM head, a few at a time. A step returns the log-probabilities of the tokens
*after* its rows, so the chunk before predicts the first token of a chunk.
"""

from collections.abc import Callable

import torch

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.outputs import PromptTokenLogprob
from minivllm.runtime.sampling.sampler import token_logprobs

_ROWS_AT_ONCE = 64
"""Rows of logits that are in memory at once: 12 MB for a vocabulary of 49,152."""


def compute_prompt_logprobs(
    plan: SchedulerOutput,
    hidden: torch.Tensor,
    compute_logits: Callable[[torch.Tensor], torch.Tensor],
) -> list[PromptTokenLogprob]:
    """Return the log-probabilities of prompt tokens that this step can compute.

    hidden: [num_tokens, hidden_size], for the plan's tokens
    compute_logits: [num_rows, hidden_size] -> [num_rows, vocab_size]
    """
    found: list[PromptTokenLogprob] = []
    first_row = 0
    for item in plan.scheduled:
        sequence = item.sequence
        if sequence.judges_prompt:
            # Stop before the last prompt token's row: it predicts the first output token.
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
