"""Builds the parts of speculative decoding from a configuration."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.core.scheduler import Scheduler
from minivllm.errors import ConfigError
from minivllm.speculation.base import Proposer
from minivllm.speculation.grammar import GrammarProposer
from minivllm.speculation.ngram import NgramProposer
from minivllm.speculation.scheduler import SpeculativeScheduler

if TYPE_CHECKING:
    from minivllm.runtime.loader import LoadedModel
    from minivllm.runtime.model_runner import ModelRunner


def speculative_scheduler(
    config: SpeculativeConfig, proposer: Proposer | None
) -> Callable[..., Scheduler]:
    """Return `SpeculativeScheduler` with its own arguments bound.

    proposer: None for the method `ngram`, which needs no model
    """
    if proposer is None:
        if config.method != "ngram":
            raise ConfigError(
                "speculative_config: the method draft_model needs an engine with a loaded model;"
                " use LLMEngine.from_config."
            )
        proposer = NgramProposer(config.prompt_lookup_max, config.prompt_lookup_min)
    return partial(
        SpeculativeScheduler,
        proposer=GrammarProposer(proposer),
        num_speculative_tokens=config.num_speculative_tokens,
    )


def load_draft_model(config: EngineConfig, model: "LoadedModel") -> "LoadedModel":
    """Load the draft model that `config` names; `model` itself if it has the same name.

    With `quantization`, a draft model that is quantized already is loaded as it is. Raises
    `ConfigError` if its vocabulary is another one, or if it has more or fewer embeddings.
    """
    from minivllm.runtime.loader import load_model

    name = config.speculative_config.model
    if name == model.name:
        return model
    own = replace(config, model=name, speculative_config=None)
    draft = load_model(own, keep_quantized=True)
    if not draft.tokenizer.has_vocabulary_of(model.tokenizer):
        raise ConfigError(
            f"speculative_config: the draft model {name} has another vocabulary than {model.name},"
            " so its tokens mean nothing to it: choose a draft model of the same family."
        )
    sizes = draft.config.vocab_size, model.config.vocab_size
    if sizes[0] != sizes[1]:  # checkpoints pad their embeddings
        raise ConfigError(
            f"speculative_config: the draft model {name} has embeddings for {sizes[0]} tokens and"
            f" {model.name} for {sizes[1]}, so one may choose a token that the other lacks: choose"
            " a draft model with as many."
        )
    return draft


def create_draft_proposer(
    config: EngineConfig, draft: "LoadedModel", runner: "ModelRunner"
) -> Proposer:
    """Allocate the draft model's KV cache, with as many blocks as that of `runner`, the model's.

    Raises `ConfigError` if it does not fit.
    """
    import torch

    from minivllm.runtime.model_runner import ModelRunner
    from minivllm.speculation.draft_model import DraftModelProposer

    limit = min(runner.max_model_len, draft.config.max_position_embeddings)
    # With its drafts all accepted, a draft model computes two tokens in its next step. It keeps
    # `speculative_config`, so that this step may be a CUDA graph too.
    own = replace(
        config,
        model=draft.name,
        num_gpu_blocks_override=runner.num_blocks,
        max_model_len=limit,
    )
    try:
        draft_runner = ModelRunner(own, draft)
    except torch.OutOfMemoryError:
        raise ConfigError(
            f"speculative_config: there is too little memory for the KV cache of the draft model"
            f" {draft.name} ({runner.num_blocks} blocks, as many as the model's): lower"
            " num_gpu_blocks_override or gpu_memory_utilization."
        ) from None
    return DraftModelProposer(
        draft_runner, config.block_size, config.max_num_seqs, config.max_num_batched_tokens
    )
