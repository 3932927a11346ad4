"""`ModelConfig`: the shape of a decoder and its switches, read from a checkpoint's `config.json`.

An architecture is a row of `FAMILIES`: the switches that all its checkpoints have, and the keys of
`config.json` that set the others. A decoder that ignores one key (a sliding window, a scaled rope,
a second bias) writes text that is fluent, but wrong. So each key that changes the arithmetic is
either supported or an error.

Source: transformers 5, `models/{llama,qwen3,...}/configuration_*.py` and `modeling_rope_utils.py`.
Version 4 of transformers wrote the keys `rope_theta` and `rope_scaling`; version 5 writes both into
`rope_parameters`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from minivllm.errors import ModelIntegrityError, UnsupportedModelError

_GRANITE_FACTORS = frozenset(
    {"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"}
)


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture."""

    model_type: str
    """Identifies a config without "architectures"."""
    switches: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `ModelConfig` that all its checkpoints share."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What keys of config.json mean if they are missing, where it is not as in Llama."""
    keys: frozenset[str] = frozenset()
    """Keys of config.json that this family computes, and Llama does not; "experts" for all that
    describe a mixture of experts.
    """


FAMILIES = {
    "LlamaForCausalLM": Family("llama"),
    "MistralForCausalLM": Family("mistral", defaults={"sliding_window": 4096}),
    "Qwen2ForCausalLM": Family("qwen2", {"attention_bias": True, "attention_output_bias": False}),
    "Qwen3ForCausalLM": Family("qwen3", {"qk_norm": "each_head"}),
    "Qwen3MoeForCausalLM": Family(
        "qwen3_moe",
        {"qk_norm": "each_head"},
        defaults={"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        keys=frozenset({"experts"}),
    ),
    "OlmoeForCausalLM": Family(
        "olmoe",
        {"qk_norm": "all_heads"},
        defaults={"num_experts": 64, "num_experts_per_tok": 8, "rms_norm_eps": 1e-5},
        keys=frozenset({"experts"}),
    ),
    "SmolLM3ForCausalLM": Family(
        "smollm3",
        defaults={"rope_theta": 2e6, "tie_word_embeddings": True},
        keys=frozenset({"no_rope_layers"}),
    ),
    "GraniteForCausalLM": Family("granite", keys=_GRANITE_FACTORS),
    "GraniteMoeForCausalLM": Family(
        "granitemoe",
        {"norm_topk_prob": True},
        defaults={"num_local_experts": 8, "num_experts_per_tok": 2},
        keys=_GRANITE_FACTORS | {"experts"},
    ),
    "Phi3ForCausalLM": Family(  # Phi-4-mini, too
        "phi3",
        {"fused_projections": True},
        defaults={"rms_norm_eps": 1e-5},
        keys=frozenset({"partial_rotary_factor"}),
    ),
    "Olmo2ForCausalLM": Family(
        "olmo2",
        {"norm_after_block": True, "qk_norm": "all_heads"},
        defaults={"rms_norm_eps": 1e-5},
    ),
    "Ernie4_5ForCausalLM": Family(
        "ernie4_5",
        {"interleaved_rotation": True},
        defaults={
            "rope_theta": 5e5, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "head_dim": 128,
        },
    ),
}  # fmt: skip
"""Architecture, as config.json names it -> what is special about it."""
TORCH_DTYPES = ("float32", "bfloat16", "float16")
MAX_LAYERS = MAX_EXPERTS = 1024
MAX_SIZE = 1 << 24
"""Upper bound for all other numbers in a config: a damaged number must not fill the memory."""
_Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
_Real = Annotated[float, Meta(gt=0, le=1e30)]
_FACTORS = _GRANITE_FACTORS | {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale"}
"""Keys of Granite, Cohere and Gemma; some of their checkpoints use Llama's architecture name."""


class Llama3RopeScaling(msgspec.Struct, frozen=True):
    """Llama 3.1's rotary scaling: it divides low frequencies by `factor`, and keeps high ones."""

    factor: _Real
    low_freq_factor: _Real
    high_freq_factor: _Real
    original_max_position_embeddings: _Size


class LongRopeScaling(NamedTuple):
    """A divisor for each frequency: Phi-4-mini, or Llama 3 in a GGUF file (`rope_freqs`)."""

    divisors: tuple[float, ...]
    attention_factor: float = 1.0
    """Cosines and sines are multiplied by it."""


class _Kind(msgspec.Struct):
    """Keys of a `config.json` that say whether we can compute the model at all."""

    architectures: list[str] = []
    model_type: str = ""
    layer_types: list[str] = []
    rope_scaling: dict[str, Any] = {}
    rope_parameters: dict[str, Any] = {}


class _Heads(msgspec.Struct):
    """Keys of a `config.json` from which other numbers follow."""

    hidden_size: _Size
    num_attention_heads: _Size
    num_key_value_heads: _Size | None = None
    head_dim: _Size | None = None
    attention_bias: bool = False
    dtype: str = ""
    torch_dtype: str = "float32"


class _Switches(msgspec.Struct):
    """Keys of a `config.json` that some families have."""

    partial_rotary_factor: Annotated[float, Meta(gt=0, le=1)] = 1.0
    no_rope_layers: list[int] = []
    """0 for each layer without rotation; the other way round than the name says."""
    num_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    num_local_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    """Another name of `num_experts`; transformers 5 writes this one."""


class _Rope(msgspec.Struct):
    rope_theta: _Real = 10000.0
    rope_type: str = ""
    type: str = "default"


class _LongRope(msgspec.Struct):
    short_factor: list[_Real]
    """Divisors for up to `original_max_position_embeddings` tokens."""
    long_factor: list[_Real]
    original_max_position_embeddings: _Size
    factor: _Real | None = None
    attention_factor: _Real | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    architecture: str
    vocab_size: _Size
    hidden_size: _Size
    intermediate_size: _Size
    num_hidden_layers: Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
    num_attention_heads: _Size
    num_key_value_heads: _Size
    head_size: _Size
    rms_norm_eps: _Real = 1e-6
    rope_theta: float
    rope_scaling: Llama3RopeScaling | LongRopeScaling | None = None
    rotary_size: int = 0
    """How many of a head's features are rotated: all, except in Phi-4-mini."""
    interleaved_rotation: bool = False
    """The rotation pairs the features 2i and 2i + 1 of a head (Ernie 4.5), not i and i + half."""
    unrotated_layers: tuple[int, ...] = ()
    """Layers without rotation: every fourth in SmolLM3."""
    max_position_embeddings: _Size
    tie_word_embeddings: bool = False
    """The LM head is the embedding table; there is no `lm_head.weight`."""
    attention_bias: bool = False
    """q, k and v have a bias (always in Qwen2)."""
    attention_output_bias: bool = False
    """The output projection has a bias (Llama and Qwen3 with `attention_bias`, never Qwen2)."""
    qk_norm: Literal["each_head", "all_heads"] | None = None
    """Queries and keys are normalized before the rotation: each head (Qwen3), or all (OLMo 2)."""
    norm_after_block: bool = False
    """Attention and MLP are normalized after they have run, not before (OLMo 2)."""
    fused_projections: bool = False
    """The checkpoint stores q, k, v as one matrix, and gate, up as another (Phi-3, Phi-4-mini)."""
    embedding_multiplier: _Real = 1.0
    residual_multiplier: _Real = 1.0
    """For the results of attention and MLP (Granite, like the next two and the one before)."""
    attention_multiplier: _Real | None = None
    """For the products of queries and keys; None is 1 / sqrt(head_size)."""
    logits_scaling: _Real = 1.0
    """A divisor of the logits."""
    num_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    """MLPs of each layer of which a token takes few (mixture of experts); 0: a layer has one MLP"""
    num_experts_per_tok: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    moe_intermediate_size: _Size | None = None
    """Width of each expert; None is `intermediate_size`."""
    norm_topk_prob: bool = False
    """The shares of a token's experts are scaled to a sum of 1."""
    decoder_sparse_step: _Size = 1
    """Of a model with experts, every n-th layer has them, and the others have one MLP."""
    mlp_only_layers: tuple[int, ...] = ()
    """Further layers with one MLP."""
    dtype: str = "float32"
    """The dtype of the checkpoint's weights: `float32`, `bfloat16` or `float16`."""

    @classmethod
    def from_hf_dict(cls, hf: Mapping[str, Any]) -> "ModelConfig":
        """Read the contents of a `config.json`.

        Raises `UnsupportedModelError` for a model that our decoder cannot compute, and
        `ModelIntegrityError` for a number that is missing or impossible.
        """
        architecture = _architecture(_read(hf, _Kind))
        family = FAMILIES[architecture]
        hf = {**family.defaults, **{key: value for key, value in hf.items() if value is not None}}
        kind = _read(hf, _Kind)
        _refuse_what_we_do_not_compute(hf, kind, architecture)

        heads, switches = _read(hf, _Heads), _read(_rope_options(hf, kind) | hf, _Switches)
        head_size = heads.head_dim or heads.hidden_size // heads.num_attention_heads
        rope_theta, rope_scaling, longest = _rope(_rope_options(hf, kind), hf)
        own = {
            "architecture": architecture,
            "num_key_value_heads": heads.num_key_value_heads or heads.num_attention_heads,
            "head_size": head_size,
            "rope_theta": rope_theta,
            "rope_scaling": None,
            "rotary_size": int(head_size * switches.partial_rotary_factor),
            "unrotated_layers": [i for i, rope in enumerate(switches.no_rope_layers) if not rope],
            "max_position_embeddings": longest,
            "num_experts": switches.num_local_experts or switches.num_experts,
            "attention_bias": heads.attention_bias,
            "attention_output_bias": heads.attention_bias,
            "dtype": (heads.dtype or heads.torch_dtype).removeprefix("torch."),
            **family.switches,
        }
        # Transformers 5 omits values that equal the class's default, such as untied embeddings.
        config = replace(_read({**hf, **own}, cls), rope_scaling=rope_scaling)
        _check_numbers(config)
        return config

    def has_experts(self, layer: int) -> bool:
        """Whether this layer has experts in place of one MLP."""
        is_sparse = (layer + 1) % self.decoder_sparse_step == 0
        return self.num_experts > 0 and is_sparse and layer not in self.mlp_only_layers

    @property
    def is_llama(self) -> bool:
        """Whether the layers compute what Llama's do, biases apart: then layers.c can run them."""
        return (
            self.qk_norm is None
            and not self.norm_after_block
            and not self.unrotated_layers
            and self.residual_multiplier == 1
            and not self.num_experts
        )


T = TypeVar("T")


def _read(values: Mapping[str, Any], kind: type[T]) -> T:
    """Read the fields of a struct from JSON, where null is the same as a missing key."""
    given = {key: value for key, value in values.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise ModelIntegrityError(
            f"config.json has a wrong value ({error}): check it, or download the model again."
        ) from None


def _architecture(kind: _Kind) -> str:
    names, model_type = kind.architectures, kind.model_type
    by_model_type = {family.model_type: name for name, family in FAMILIES.items()}
    if not names and model_type in by_model_type:
        return by_model_type[model_type]
    for name in names:
        if name in FAMILIES:
            if model_type in ("", FAMILIES[name].model_type):
                return name
            names = [f"{name} with model_type {model_type}"]
    found = ", ".join(names) or model_type or "none named"
    raise UnsupportedModelError(
        f"This model's architecture ({found:.100}) is not supported; use one of"
        f" {', '.join(FAMILIES)}."
    )


def _refuse_what_we_do_not_compute(hf: Mapping[str, Any], kind: _Kind, architecture: str) -> None:
    rope, computed = _rope_options(hf, kind), FAMILIES[architecture].keys
    # A Qwen config always has a sliding window, and a flag that says whether the model uses it.
    # Other models always use the window that their config has. No context fills Phi-4-mini's.
    window, longest = hf.get("sliding_window"), hf.get("max_position_embeddings", 0)
    fills = bool(window) and not (isinstance(window, int) and window >= longest)
    slides = hf.get("use_sliding_window", not architecture.startswith("Qwen") and fills)
    reasons = {
        "experts": "experts" not in computed
        and any(value for key, value in hf.items() if "expert" in key or key.startswith("moe_")),
        "experts that all tokens share": any(value for key, value in hf.items() if "shared" in key),
        "clipped queries and keys": bool(hf.get("clip_qkv")),
        "a hidden_act other than silu": hf.get("hidden_act", "silu") != "silu",
        "biases in the MLP": bool(hf.get("mlp_bias") or hf.get("use_bias")),
        "sliding-window attention": bool(slides),
        "several kinds of layers": set(kind.layer_types) - {"full_attention"},
        "a rotary embedding for part of each head": (
            "partial_rotary_factor" not in computed
            and rope.get("partial_rotary_factor") not in (None, 1)
        ),
        "layers without a rotary embedding": (
            "no_rope_layers" not in computed and bool(hf.get("no_rope_layers"))
        ),
        "a rotary embedding for each kind of layer": any(
            isinstance(value, dict) for value in rope.values()
        ),
        "scaled or capped attention or logits": any(
            hf.get(name) not in (None, 1) for name in _FACTORS - computed
        ),
        "quantized weights": bool(hf.get("quantization_config") or hf.get("compression_config")),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedModelError(
                f"This {architecture} has {reason}, which is not supported; use another model."
            )


def _check_numbers(config: ModelConfig) -> None:
    """Raise an error for numbers that are possible alone, but not together."""
    rope_scaling = config.rope_scaling
    num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
    if num_heads % num_kv_heads:
        raise ModelIntegrityError(
            f"num_attention_heads ({num_heads}) must be a multiple of num_key_value_heads"
            f" ({num_kv_heads}); check the model's config.json."
        )
    sizes = (config.head_size, config.rotary_size)
    if any(size % 2 for size in sizes) or num_heads * config.head_size > MAX_SIZE:
        raise ModelIntegrityError(
            f"{num_heads} heads of size {config.head_size} are not possible: check head_dim"
            " and num_attention_heads in config.json."
        )
    if config.num_experts and not 1 <= config.num_experts_per_tok <= config.num_experts:
        raise ModelIntegrityError(
            f"A token cannot take {config.num_experts_per_tok} of {config.num_experts} experts:"
            " check num_experts_per_tok in config.json."
        )
    if isinstance(rope_scaling, LongRopeScaling) and (
        len(rope_scaling.divisors) != config.rotary_size // 2
    ):
        raise ModelIntegrityError(
            f"short_factor has {len(rope_scaling.divisors)} numbers in config.json, but"
            f" {config.rotary_size // 2} pairs of features are rotated; check the file."
        )
    if config.dtype not in TORCH_DTYPES:
        raise UnsupportedModelError(
            f"Weights stored as {config.dtype:.50} are not supported; use one of"
            f" {', '.join(TORCH_DTYPES)}."
        )


def _rope_options(hf: Mapping[str, Any], kind: _Kind) -> dict[str, Any]:
    """Return the rope settings, of transformers 4 and 5, as one flat dictionary."""
    options = {key: hf[key] for key in ("rope_theta", "partial_rotary_factor") if key in hf}
    return options | kind.rope_scaling | kind.rope_parameters


def _rope(
    options: dict[str, Any], hf: Mapping[str, Any]
) -> tuple[float, Llama3RopeScaling | LongRopeScaling | None, int | None]:
    """Return the base, the scaling, and the longest sequence for which both hold."""
    rope, longest = _read(options, _Rope), hf.get("max_position_embeddings")
    rope_type = rope.rope_type or rope.type
    trained = {"original_max_position_embeddings": hf.get("max_position_embeddings")}
    match rope_type:
        case "default":
            return rope.rope_theta, None, longest
        case "llama3":
            scaling = _read(trained | options, Llama3RopeScaling)
            low, high = scaling.low_freq_factor, scaling.high_freq_factor
            if low >= high:
                raise ModelIntegrityError(
                    f"low_freq_factor ({low}) must be less than high_freq_factor ({high}) in"
                    " config.json."
                )
            return rope.rope_theta, scaling, longest
        case "longrope":
            if "original_max_position_embeddings" in hf:
                trained = {
                    "original_max_position_embeddings": hf["original_max_position_embeddings"]
                }
            given = _read(trained | options, _LongRope)
            original = given.original_max_position_embeddings
            # Longer sequences need other frequencies for *all* tokens, cached ones included.
            if given.short_factor != given.long_factor:
                longest = original
            scale = given.factor or hf.get("max_position_embeddings", original) / original
            factor = given.attention_factor or (
                math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
            )
            return rope.rope_theta, LongRopeScaling(tuple(given.short_factor), factor), longest
    raise UnsupportedModelError(
        f"Rope scaling of type {rope_type!r:.50} is not supported; use a model with rope type"
        " default, llama3 or longrope."
    )
