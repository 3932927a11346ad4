"""Tiny random models of all families, and a runner for hand-written plans.

The models come from `transformers` and are the oracle; our decoder gets their weights.
"""

import tempfile
from types import SimpleNamespace

import safetensors.torch
import torch
import transformers

from minivllm.config import EngineConfig, LinearBackendName
from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput
from minivllm.runtime.loader import LoadedModel
from minivllm.runtime.model.decoder import Decoder
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model_runner import ModelRunner
from minivllm.sampling_params import SamplingParams

VOCAB_SIZE = 256
_SIZES = {
    "vocab_size": VOCAB_SIZE, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
_LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
_EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2}
# Its first layer has one MLP.
_QWEN3_MOE = {
    "head_dim": 16, "moe_intermediate_size": 32, "decoder_sparse_step": 2, "norm_topk_prob": True,
}  # fmt: skip
GRANITE_FACTORS = {
    "embedding_multiplier": 12.0, "attention_multiplier": 0.25, "residual_multiplier": 0.22,
    "logits_scaling": 4.0,
}  # fmt: skip
_DENSE_GRANITE_4 = {
    "layer_types": ["full_attention"] * 2, "position_embedding_type": "rope", "mamba_n_heads": 6,
    "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 76,
}  # fmt: skip
# Heads of 8, of which 4 are rotated: two divisors.
_PHI4_MINI = {
    "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
        "short_factor": [1.0, 1.5], "long_factor": [1.0, 30.0],
    },
    "original_max_position_embeddings": 256, "sliding_window": 4096, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

# Heads of 14 in a window that is no multiple of a block, and two bases of the rotary embedding.
_GEMMA3 = {
    "num_hidden_layers": 5, "head_dim": 14, "sliding_window": 11, "query_pre_attn_scalar": 10,
    "layer_types": [*2 * ("sliding_attention", "full_attention"), "sliding_attention"],
    "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}  # fmt: skip

_QWEN_WINDOW = {"use_sliding_window": True, "sliding_window": 11, "max_window_layers": 1}
_PEERS = {
    "llama": ("Llama", {"tie_word_embeddings": True, "pad_token_id": 0}),
    "llama-heads-of-16": ("Llama", {"head_dim": 16}),  # the C kernels need multiples of 16
    "llama3-rope-and-biases": ("Llama", {"attention_bias": True, "rope_parameters": _LLAMA3_ROPE}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16}),  # wider than hidden_size / num_attention_heads
    "smollm3": ("SmolLM3", {"no_rope_layer_interval": 2, "pad_token_id": 0}),  # not in the second
    "granite": ("Granite", GRANITE_FACTORS),
    "phi3": ("Phi3", _PHI4_MINI),
    "olmo2": ("Olmo2", {"pad_token_id": 0, "eos_token_id": 2}),
    "ernie4_5": ("Ernie4_5", {"head_dim": 16}),
    "qwen3-moe": ("Qwen3Moe", _EXPERTS | _QWEN3_MOE),
    "olmoe": ("Olmoe", _EXPERTS | {"pad_token_id": 0, "eos_token_id": 2}),
    "granite-moe": (
        "GraniteMoe", GRANITE_FACTORS | {"num_local_experts": 5, "num_experts_per_tok": 2},
    ),
    "granite-4": ("GraniteMoeHybrid", GRANITE_FACTORS | _DENSE_GRANITE_4),
    "mistral": ("Mistral", {"sliding_window": None}),
    "gemma3": ("Gemma3", _GEMMA3),
    "gemma3-heads-of-16": ("Gemma3", _GEMMA3 | {"head_dim": 16}),
    "mistral-window": ("Mistral", {"head_dim": 16, "sliding_window": 11}),  # in one call of C
    "ministral": ("Ministral", {"head_dim": 8, "sliding_window": 11}),
    "qwen2-window": ("Qwen2", _QWEN_WINDOW),
    "qwen3-window": ("Qwen3", _QWEN_WINDOW | {"head_dim": 16}),
    "phi3-window": ("Phi3", _PHI4_MINI | {"sliding_window": 11}),
}  # fmt: skip
"""Name -> the family's name in transformers, and what its config adds to `_SIZES`."""


def make_peer(name: str) -> transformers.PreTrainedModel:
    """A transformers model with random weights; norms and biases are random too."""
    family, options = _PEERS[name]
    suffix = "TextConfig" if family == "Gemma3" else "Config"
    config = getattr(transformers, f"{family}{suffix}")(**_SIZES | options)
    peer = getattr(transformers, f"{family}ForCausalLM")(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in peer.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.15 * noise if parameter.dim() > 1 else parameter + 0.3 * noise)
    return peer.eval()


PEERS = ("llama", "llama3-rope-and-biases", "qwen2", "qwen3")
MORE_PEERS = (
    "mistral", "smollm3", "granite", "phi3", "olmo2", "ernie4_5", "qwen3-moe", "olmoe",
    "granite-moe", "granite-4", "gemma3", "gemma3-heads-of-16", "mistral-window", "ministral",
    "qwen2-window", "qwen3-window", "phi3-window",
)  # fmt: skip


def config_of(peer: transformers.PreTrainedModel) -> ModelConfig:
    return ModelConfig.from_hf_dict(
        peer.config.to_dict() | {"architectures": [type(peer).__name__]}
    )


def checkpoint_of(peer: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    """The weights under the names of its checkpoints; transformers keeps experts in one tensor."""
    if not any("experts" in name for name in peer.state_dict()):
        return peer.state_dict()
    with tempfile.TemporaryDirectory() as directory:
        peer.save_pretrained(directory)
        return safetensors.torch.load_file(f"{directory}/model.safetensors")


def load_into_ours(
    peer: transformers.PreTrainedModel,
    dtype: torch.dtype = torch.float32,
    linear_backend: LinearBackendName = "auto",
    device: torch.device | str = "cpu",
) -> Decoder:
    decoder = Decoder(config_of(peer), dtype, device, linear_backend)
    decoder.load_weights(checkpoint_of(peer).items())
    return decoder


@torch.no_grad()
def peer_logits(peer: transformers.PreTrainedModel, token_ids: list[int]) -> torch.Tensor:
    """Logits after the last of `token_ids`, without a cache: [vocab_size]."""
    return peer(torch.tensor([token_ids])).logits[0, -1]


@torch.no_grad()
def prompt(length: int, seed: int = 0) -> list[int]:
    return torch.randint(
        VOCAB_SIZE, (length,), generator=torch.Generator().manual_seed(seed)
    ).tolist()


def steps_of_all_kinds(run: "PlannedRunner") -> list[torch.Tensor]:
    """Logits of mixed steps: chunks, decodes, a shared prefix, a fully cached prompt."""
    generator = torch.Generator().manual_seed(3)
    first, second = (
        run.new(torch.randint(VOCAB_SIZE, (n,), generator=generator).tolist()) for n in (19, 9)
    )
    steps = [run.run((first, 12)), run.run((first, 7), (second, 9))]
    cached = run.new(first.token_ids[:16], first, 4)
    for sequence in (first, second):
        sequence.append_token(7)
    steps.append(run.run((first, 1), (cached, 1), (second, 1)))
    third = run.new([*first.token_ids[:8], 1, 2, 3], first, 2)
    second.append_token(8)
    steps.append(run.run((second, 1), (third, 3)))
    return steps


class PlannedRunner:
    """Hands out blocks in scrambled order and runs the plans of a test."""

    def __init__(self, decoder: Decoder, **options: object) -> None:
        defaults = {"block_size": 4, "num_gpu_blocks_override": 200}
        defaults |= {"max_num_seqs": 16, "max_model_len": 256}
        self.config = EngineConfig(**(defaults | options))
        tokenizer = SimpleNamespace(eos_token_ids=frozenset())
        model = LoadedModel(
            "tiny", decoder.config, decoder, tokenizer, decoder.device, decoder.dtype
        )
        self.runner = ModelRunner(self.config, model)
        order = torch.randperm(self.runner.num_blocks, generator=torch.Generator().manual_seed(2))
        self._free_blocks = [KVCacheBlock(block_id) for block_id in order.tolist()]
        self._free_slots = list(range(self.config.max_num_seqs))

    def new(
        self, token_ids: list[int], prefix_of: Sequence | None = None, num_shared_blocks: int = 0
    ) -> Sequence:
        """An admitted sequence; it may share the first blocks of `prefix_of`."""
        sequence = Request("r", list(token_ids), SamplingParams(temperature=0.0)).sequences[0]
        sequence.slot = self._free_slots.pop(0)
        if prefix_of is not None:
            if len(prefix_of.block_table) < num_shared_blocks:
                raise ValueError("the other sequence has too few blocks: see `give_blocks`")
            sequence.block_table += prefix_of.block_table[:num_shared_blocks]
            sequence.num_cached_tokens = num_shared_blocks * self.config.block_size
            sequence.num_computed_tokens = min(sequence.num_cached_tokens, len(token_ids) - 1)
        return sequence

    def give_blocks(self, sequence: Sequence, num_tokens: int) -> None:
        """Extend its block table until it holds `num_tokens` tokens."""
        while len(sequence.block_table) * self.config.block_size < num_tokens:
            sequence.block_table.append(self._free_blocks.pop())

    def plan(self, *work: tuple[Sequence, int]) -> SchedulerOutput:
        """A plan with this many tokens of each sequence."""
        plan = SchedulerOutput(step=0, budget=self.config.max_num_batched_tokens)
        for sequence, num_tokens in work:
            start, is_new = sequence.num_computed_tokens, sequence.request.prompt is None
            sequence.request.prompt = "seen"
            sequence.num_computed_tokens += num_tokens
            self.give_blocks(sequence, sequence.num_computed_tokens)
            item = ScheduledSequence(sequence, start, num_tokens, starts_fresh=is_new)
            if sequence.num_computed_tokens == sequence.num_tokens:
                item.sampling.append(sequence)
            plan.scheduled.append(item)
        plan.total_num_scheduled_tokens = sum(num_tokens for _, num_tokens in work)
        return plan

    def run(self, *work: tuple[Sequence, int]) -> torch.Tensor:
        """Logits of the sequences that sample: [num_sampling_sequences, vocab_size]."""
        return self.runner.execute_model(self.plan(*work)).logits
