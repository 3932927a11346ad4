"""Runs a model in float32 under many schedules, to compare its tokens with `transformers`."""

import dataclasses
from functools import cache

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.outputs import RequestOutput
from minivllm.runtime.loader import LoadedModel
from minivllm.runtime.store.model_store import resolve_for_transformers
from minivllm.sampling_params import RequestOutputKind, SamplingParams
from support.engine.engine_fakes import run_to_the_end

TIE = 1e-4
"""Two float32 logits (around 20) closer than this differ by one rounding."""
SCHEDULES = {
    "batched": {},
    "alone": {"max_num_seqs": 1},
    "chunks of 16": {"max_num_batched_tokens": 16, "max_num_seqs": 8},
    "chunks of 100": {"max_num_batched_tokens": 100},
    "blocks of 1": {"block_size": 1, "num_gpu_blocks_override": 4096},
    "blocks of 8": {"block_size": 8},
    "blocks of 32": {"block_size": 32},
    "without prefix caching": {"enable_prefix_caching": False},
    "attention and norms in torch": {"attention_backend": "torch"},
    "a long prompt in a pool that just holds it": {"num_gpu_blocks_override": 64},
    "a pool so small that sequences are preempted": {"num_gpu_blocks_override": 12},
}


def base_of(model: str, **options: object) -> EngineConfig:
    return EngineConfig(
        model=model, dtype="float32", device="cpu", num_gpu_blocks_override=512, max_num_seqs=16,
        max_num_batched_tokens=512, max_model_len=1024, **options,
    )  # fmt: skip


@cache
def peer_of(model: str) -> PreTrainedModel:
    """The same weights in transformers."""
    directory = resolve_for_transformers(model)
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def outputs_of(
    model: LoadedModel, prompts: list[list[int]], params: SamplingParams, **options: object
) -> tuple[list[RequestOutput], LLMEngine]:
    """Run all prompts on a new engine. Returns each prompt's output, and the engine."""
    config = dataclasses.replace(base_of(model.name), **options)
    engine = LLMEngine.from_model(config, model)
    params = dataclasses.replace(params, output_kind=RequestOutputKind.FINAL_ONLY)
    for number, token_ids in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": token_ids}, params)
    outputs = run_to_the_end(engine)
    return [outputs[str(number)] for number in range(len(prompts))], engine


def run(
    model: LoadedModel, prompts: list[list[int]], params: SamplingParams, **options: object
) -> tuple[list[list[list[int]]], LLMEngine]:
    """As `outputs_of`, but only the tokens of each prompt's samples or beams."""
    outputs, engine = outputs_of(model, prompts, params, **options)
    return [[sample.token_ids for sample in output.outputs] for output in outputs], engine


@torch.inference_mode()
def generate(peer: PreTrainedModel, token_ids: list[int], **options: object) -> list[list[int]]:
    """The new tokens of each sequence that transformers' `generate` returns."""
    output = peer.generate(
        torch.tensor([token_ids]), attention_mask=torch.ones(1, len(token_ids), dtype=torch.long),
        do_sample=False, pad_token_id=0, **options,
    )  # fmt: skip
    return output[:, len(token_ids) :].tolist()


@torch.inference_mode()
def assert_same_or_tie(peer, token_ids: list[int], ours: list[int], theirs: list[int]) -> None:
    """Require equality, except after a position where the peer's two logits tie."""
    if ours == theirs:
        return
    split = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    logits = peer(torch.tensor([token_ids + theirs[:split]])).logits[0, -1]
    gap = (logits[theirs[split]] - logits[ours[split]]).item()
    assert gap < TIE, (
        f"token {split}: ours {ours[split]}, theirs {theirs[split]}, the logits are {gap:.6f} apart"
    )


@torch.inference_mode()
def logprobs_of(peer: PreTrainedModel, token_ids: list[int]) -> torch.Tensor:
    """Log-probabilities of the token after each of these: [num_tokens, vocab_size], float32."""
    return peer(torch.tensor([token_ids])).logits[0].log_softmax(dim=-1)
