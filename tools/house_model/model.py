"""The model: a small Llama, and a head start for the circuit that copies.

Copying needs two attention heads that work together, an induction head (Olsson et al., 2022):

    ... Ada lost the red kite ... Ada lost the [red]
    layer 0: each token looks at the token before it and notes what that was
    layer 1: the last "the" looks for a token that noted "the", finds "red", and repeats it

Neither head is of any use without the other, so training finds them late: after millions of tokens,
the model still answered every "Repeat: ..." with other words. Training may take only an hour. So we
write a rough version of both heads into the random weights, and training improves it.
"""

import torch
from tokenizer import END_ID, START_ID, STOP_ID, VOCAB_SIZE
from transformers import LlamaConfig, LlamaForCausalLM

CONTEXT = 1024
HEAD_SIZE = 32
_HALF = HEAD_SIZE // 2
_ROPE_THETA = 100_000.0


def make_model(hidden: int, layers: int, seed: int) -> LlamaForCausalLM:
    """Return a Llama with random weights: 6 query heads share 2 key-value heads."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=hidden,
        intermediate_size=hidden * 7 // 3,
        num_hidden_layers=layers,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=HEAD_SIZE,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": _ROPE_THETA},
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        bos_token_id=START_ID,
        eos_token_id=STOP_ID,
        pad_token_id=END_ID,
    )
    model = LlamaForCausalLM(config)
    if layers > 1:
        _give_head_start(model)
    return model


@torch.no_grad()
def _give_head_start(model: LlamaForCausalLM) -> None:
    """Write an induction head into head 0 of the first two layers.

    It uses three groups of directions of the hidden state, all at right angles to each other:
    `seen` to compare tokens, `noted` for the token before, `copied` for the token to repeat.
    """
    embedding = model.model.embed_tokens.weight
    hidden = embedding.shape[1]
    # RoPE turns a pair (i, i + 16) of a head's dimensions by position * speeds[i]. The fast pairs
    # can distinguish positions, and the slow ones can compare contents at any distance.
    speeds = _ROPE_THETA ** (-torch.arange(_HALF) / _HALF)
    fast = torch.arange(6)
    slow = torch.cat((torch.arange(6, _HALF), torch.arange(6, _HALF) + _HALF))
    directions = torch.linalg.qr(torch.randn(hidden, hidden)).Q
    directions[:, 0] = 0.0  # dimension 0 of the hidden state has another use, below
    seen, noted, copied = directions.split((len(slow), len(slow), hidden - 2 * len(slow)))
    copied = copied[:HEAD_SIZE]

    # Dimension 0 is the same for all tokens, so that a head can look at a position regardless of
    # the tokens. It adds the same number to all logits, which changes no probability.
    embedding[:, 0] = 0.15
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    for attention in (first, second):
        attention.q_proj.weight[:HEAD_SIZE] = 0.0
        attention.k_proj.weight[:HEAD_SIZE] = 0.0
        attention.v_proj.weight[:HEAD_SIZE] = 0.0
        attention.o_proj.weight[:, :HEAD_SIZE] = 0.0

    # Layer 0: the key is turned by one position, so a query fits the key before it best.
    first.q_proj.weight[fast, 0] = 0.9
    first.k_proj.weight[fast, 0] = 0.9 * speeds[fast].cos()
    first.k_proj.weight[fast + _HALF, 0] = 0.9 * speeds[fast].sin()
    first.v_proj.weight[slow] = seen
    first.o_proj.weight[:, slow] = 0.04 * noted.T

    # Layer 1: the query is the token itself, the key is the token that was noted.
    second.q_proj.weight[slow] = 2.4 * seen
    second.k_proj.weight[slow] = 2.4 * noted
    second.v_proj.weight[:HEAD_SIZE] = copied
    second.o_proj.weight[:, :HEAD_SIZE] = 0.15 * copied.T
