"""Reference implementation of the sampler: one row, numpy, loops over the vocabulary.

It shares only the key of a draw with the real sampler. Where a decision depends on rounding, it
raises `TooCloseError`, and the test draws another case.
"""

import math
from dataclasses import dataclass

import numpy as np

from minivllm.core.request import Request, Sequence
from minivllm.sampling_params import SamplingParams


class TooCloseError(Exception):
    """The right answer depends on rounding."""


@dataclass
class ReferenceAnswer:
    probabilities: np.ndarray  # [vocab], after all processing
    token_id: int


def make_sequence(
    params: SamplingParams, prompt: list[int] = (0,), output: list[int] = (),
    request_id: str = "request", index: int = 0,
) -> Sequence:  # fmt: skip
    """A sequence that has generated `output`."""
    sequence = Sequence(Request(request_id, list(prompt), params), index, list(prompt))
    for token_id in output:
        sequence.append_token(token_id)
    return sequence


def processed_logits(logits: np.ndarray, sequence: Sequence, eos_token_ids: set[int]) -> np.ndarray:
    """Min-tokens mask, logit bias and penalties on float32 `logits: [vocab]`."""
    params, output = sequence.request.params, sequence.output_token_ids
    prompt = sequence.request.prompt_token_ids
    logits = logits.astype(np.float32).copy()
    for token_id in range(len(logits)):
        if len(output) < params.min_tokens and (
            token_id in eos_token_ids or token_id in params.stop_token_ids
        ):
            logits[token_id] = -np.inf
        logits[token_id] += np.float32((params.logit_bias or {}).get(token_id, 0.0))
        if token_id in prompt or token_id in output:
            penalty = np.float32(params.repetition_penalty)
            logits[token_id] = (
                logits[token_id] / penalty if logits[token_id] > 0 else logits[token_id] * penalty
            )
        if token_id in output:
            logits[token_id] -= np.float32(params.frequency_penalty) * np.float32(
                output.count(token_id)
            )
            logits[token_id] -= np.float32(params.presence_penalty)
    return logits


def best_first(logits: np.ndarray) -> list[int]:
    return sorted(range(len(logits)), key=lambda token_id: (-logits[token_id], token_id))


def arrival_time(key: int, token_id: int) -> float:
    """Arrival time of a token with probability 1: -log of SplitMix64 in Python integers."""
    mask = 2**64 - 1
    bits = (key + (token_id + 1) * 0x9E3779B97F4A7C15) & mask
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & mask
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & mask
    bits ^= bits >> 31
    return -math.log(((bits >> 12) + 0.5) / 2**52)


def reference_sample(
    logits: np.ndarray, sequence: Sequence, eos_token_ids: set[int], key: int
) -> ReferenceAnswer:
    """The answer that `Sampler` should give for one row of `logits: [vocab]`."""
    params = sequence.request.params
    logits = processed_logits(logits, sequence, eos_token_ids)
    ranking = best_first(logits)
    if params.temperature == 0.0:
        return ReferenceAnswer(np.eye(len(logits))[ranking[0]], ranking[0])

    scaled = (logits.astype(np.float64) - logits[ranking[0]]) / params.temperature
    probabilities = np.exp(scaled) / np.exp(scaled).sum()

    for token_id in ranking:
        ratio = probabilities[token_id] / probabilities[ranking[0]]
        if params.min_p > 0.0 and 0.0 < abs(ratio - params.min_p) < 1e-12:
            raise TooCloseError
        if ratio < params.min_p:
            probabilities[token_id] = 0.0
    if params.top_k > 0:
        probabilities[ranking[params.top_k :]] = 0.0
    probabilities /= probabilities.sum()

    mass = 0.0
    for token_id in ranking:
        if params.top_p < 1.0 and mass > 0.0 and abs(mass - params.top_p) < 1e-8:
            raise TooCloseError
        kept = mass < params.top_p
        mass += probabilities[token_id]
        if not kept:
            probabilities[token_id] = 0.0
    probabilities /= probabilities.sum()

    times = {
        token_id: arrival_time(key, token_id) / probabilities[token_id]
        for token_id in range(len(logits))
        if probabilities[token_id] > 0.0
    }
    first, *others = sorted(times, key=times.get)
    if others and times[others[0]] < times[first] * (1 + 1e-8):
        raise TooCloseError
    return ReferenceAnswer(probabilities, first)
