"""`apply_grammar_bitmask`: exclude the tokens that a grammar refuses.

Source: vLLM `vllm/v1/structured_output/utils.py`.
"""

import numpy as np
import torch


def apply_grammar_bitmask(logits: torch.Tensor, bitmask: bytes) -> torch.Tensor:
    """Return a copy of `logits: [vocab]` with -inf for each token that a grammar refuses.

    bitmask: bit i % 8 of byte i // 8 is 1 if token i is allowed; further tokens are refused
    """
    packed = np.frombuffer(bitmask, dtype=np.uint8)
    allowed = np.unpackbits(packed, count=len(logits), bitorder="little").view(np.bool_)
    if logits.device.type == "cpu":  # NumPy waits for no other threads
        return torch.from_numpy(np.where(allowed, logits.numpy(), np.float32(-np.inf)))
    return logits.masked_fill(~torch.from_numpy(allowed).to(logits.device), -torch.inf)
