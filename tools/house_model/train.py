"""Train the house model: a small Llama that learns our own language from a seed.

    python tools/house_model/train.py --out minivllm/runtime/store/house      (`make house-model`)

1. `tokenizer.py` learns a vocabulary from the corpus, and `model.py` draws the first weights.
2. The model predicts each next token of its rows. First the rows are random tokens that repeat, so
   it learns to copy. Then most rows are documents of `corpus.py`, and a few are still to copy.
3. AdamW takes one step per batch. The learning rate rises for a short time, then falls along a
   cosine. Rows grow from 256 to 1,024 tokens, because a long row costs more and teaches little
   early.
4. Weights are saved in bf16. The checker says how many held-out prompts the model answers right.

The corpus is endless, so no document is seen twice. That is why there is no dropout and no epoch.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from checker import every_serving_question, held_out_prompts, judge, report
from corpus import documents
from model import CONTEXT, make_model
from tokenizer import (
    END_ID,
    SPECIAL_TOKENS,
    START_ID,
    STOP_ID,
    VOCAB_SIZE,
    train_tokenizer,
    write_tokenizer,
)
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoTokenizer, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

COPY_LENGTH = 64


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The settings of a training. The defaults are those of the real model."""

    steps: int = 9000
    batch_tokens: int = 2048
    row_lengths: tuple[tuple[float, int], ...] = ((0.6, 256), (0.85, 512), (1.0, CONTEXT))
    """(until this share of the steps, tokens in a row)"""
    copy_steps: int = 200
    peak_rate: float = 2e-3
    warmup_steps: int = 30
    weight_decay: float = 0.1
    clip: float = 1.0
    hidden: int = 192
    layers: int = 5
    seed: int = 0
    tokenizer_documents: int = 12_000
    save_every_s: float = 60.0
    limit_s: float = math.inf
    """On a slow machine, the schedule follows the clock, so fewer steps are taken."""


def encoded_documents(tokenizer: Tokenizer, seed: int) -> Iterator[tuple[list[int], list[float]]]:
    for document in documents(seed):
        ids: list[int] = []
        weights: list[float] = []
        for text, weight in document:
            tokens = tokenizer.encode(text).ids
            ids += tokens
            weights += [weight] * len(tokens)
        yield ids, weights


def copy_row(random: Random, length: int) -> tuple[list[int], list[float]]:
    """Return random tokens that repeat, so that nothing helps but copying: `4 9 7 4 9 7 4 ...`."""
    period = random.randrange(3, COPY_LENGTH // 2)
    ids = [random.randrange(len(SPECIAL_TOKENS), VOCAB_SIZE) for _ in range(period)]
    repeats = length // period + 1
    return (ids * repeats)[:length], ([0.0] * period + [1.0] * length)[:length]


def copy_share(options: TrainingOptions, step: int) -> float:
    """The share of rows to copy: all at first, then from a half down to a tenth.

    Without them the model learns which words are frequent, loses its head start, and ignores its
    prompt for millions of tokens.
    """
    if step < options.copy_steps:
        return 1.0
    return max(0.1, 0.5 - 0.4 * (step - options.copy_steps) / (2 * options.copy_steps))


class Batches:
    """Packs documents into rows. A row begins with a document; its last document may be cut."""

    def __init__(self, tokenizer: Tokenizer, options: TrainingOptions) -> None:
        self._documents = encoded_documents(tokenizer, options.seed)
        self._random = Random(options.seed)
        self._options = options

    def next(self, step: int, done: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and weights, both [rows, tokens + 1]. done: finished share of the training"""
        options = self._options
        length = next(length for until, length in options.row_lengths if done < until)
        num_rows = max(1, options.batch_tokens // length)
        if step < options.copy_steps:
            # Small batches: there is only one thing to learn, and each batch shows it.
            length, num_rows = COPY_LENGTH, options.batch_tokens // COPY_LENGTH // 2
        rows = [
            copy_row(self._random, length + 1)
            if self._random.random() < copy_share(options, step)
            else self._text_row(length + 1)
            for _ in range(num_rows)
        ]
        return torch.tensor([ids for ids, _ in rows]), torch.tensor(
            [weights for _, weights in rows]
        )

    def _text_row(self, length: int) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length:
            document_ids, document_weights = next(self._documents)
            ids += document_ids
            weights += document_weights
        return ids[:length], weights[:length]


def learning_rate(options: TrainingOptions, step: int, done: float) -> float:
    """A straight rise, then half a cosine, down to a fiftieth of the peak."""
    rise = min(1.0, (step + 1) / options.warmup_steps)
    return options.peak_rate * rise * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def loss_of(model: LlamaForCausalLM, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The weighted mean cross-entropy of each next token."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    losses = functional.cross_entropy(
        logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
    )
    weight = weights[:, 1:].flatten()
    return (losses * weight).sum() / weight.sum()


def make_optimizer(model: LlamaForCausalLM, options: TrainingOptions) -> torch.optim.Optimizer:
    """AdamW. Weight decay pulls matrices towards zero, but not the scales of norms."""
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    norms = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": options.weight_decay},
        {"params": norms, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def train(options: TrainingOptions, out: Path) -> LlamaForCausalLM:
    """Train from the seed and write checkpoints to `out`, the last one at the end."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(options.seed, options.tokenizer_documents)
    write_tokenizer(tokenizer, out)
    model, batches = (
        make_model(options.hidden, options.layers, options.seed),
        Batches(tokenizer, options),
    )
    optimizer = make_optimizer(model, options)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} parameters", flush=True)
    started = saved = time.monotonic()
    num_tokens = 0
    for step in range(options.steps):
        done = max(step / options.steps, (time.monotonic() - started) / options.limit_s)
        if done >= 1:
            break
        ids, weights = batches.next(step, done)
        loss = loss_of(model, ids, weights)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step, done)
        optimizer.step()
        optimizer.zero_grad()
        num_tokens += ids.numel()
        if step % 50 == 0:
            log(step, loss.item(), num_tokens, time.monotonic() - started)
        if time.monotonic() - saved > options.save_every_s:
            save(model, out)
            saved = time.monotonic()
    save(model, out)
    return model


def log(step: int, loss: float, num_tokens: int, seconds: float) -> None:
    print(
        f"step {step:5}  loss {loss:.3f}  {num_tokens / 1e6:5.2f} M tokens"
        f"  {num_tokens / seconds:,.0f} tokens/s  {seconds:.0f} s",
        flush=True,
    )


def save(model: LlamaForCausalLM, out: Path) -> None:
    """Write the weights in bf16, with their configuration. Training goes on in float32."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16).save_pretrained(out)
    ends = {"bos_token_id": START_ID, "eos_token_id": [STOP_ID, END_ID], "pad_token_id": END_ID}
    (out / "generation_config.json").write_text(json.dumps(ends, indent=2) + "\n", "utf-8")
    # safetensors makes its file for one user only; an installed package is read by all.
    (out / "model.safetensors").chmod(0o644)


def main() -> None:
    defaults = TrainingOptions()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint's directory")
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="stop by then: the learning rate falls by the clock where that is ahead of the steps",
    )
    arguments = parser.parse_args()
    transformers_logging.disable_progress_bar()
    limit_s = 60 * arguments.minutes
    options = TrainingOptions(steps=arguments.steps, seed=arguments.seed, limit_s=limit_s)
    train(options, arguments.out)
    # Judge what was saved, not the float32 weights: rounding to bf16 may cost something.
    model = LlamaForCausalLM.from_pretrained(arguments.out, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(arguments.out)
    print("held-out prompts", report(judge(model, tokenizer, held_out_prompts())), sep="\n")
    print(
        "questions about serving",
        report(judge(model, tokenizer, every_serving_question())),
        sep="\n",
    )


if __name__ == "__main__":
    main()
