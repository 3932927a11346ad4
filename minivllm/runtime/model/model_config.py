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

_WINDOW = frozenset({"sliding_window"})
_QWEN_WINDOW = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28}
_GRANITE_FACTORS = frozenset(
    {"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"}
)


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture."""

    model_type: str  # Identifies a config without "architectures".
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
    "MistralForCausalLM": Family("mistral", {}, {"sliding_window": 4096}, _WINDOW),
    "MinistralForCausalLM": Family("ministral", {}, {"sliding_window": 4096}, _WINDOW),
    "Qwen2ForCausalLM": Family(
        "qwen2", {"attention_bias": True, "attention_output_bias": False}, _QWEN_WINDOW, _WINDOW
    ),
    "Qwen3ForCausalLM": Family("qwen3", {"qk_norm": "each_head"}, _QWEN_WINDOW, _WINDOW),
    "Qwen3MoeForCausalLM": Family(
        "qwen3_moe", {"qk_norm": "each_head"},
        {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        frozenset({"experts"}),
    ),
    "OlmoeForCausalLM": Family(
        "olmoe", {"qk_norm": "all_heads"},
        {"num_experts": 64, "num_experts_per_tok": 8, "rms_norm_eps": 1e-5},
        frozenset({"experts"}),
    ),
    "SmolLM3ForCausalLM": Family(
        "smollm3", {}, {"rope_theta": 2e6, "tie_word_embeddings": True},
        frozenset({"no_rope_layers"}),
    ),
    "GraniteForCausalLM": Family("granite", keys=_GRANITE_FACTORS),
    "GraniteMoeHybridForCausalLM": Family(  # Granite 4, if it has neither states nor experts
        "granitemoehybrid", {"fused_projections": ("gate_up_proj",)},
        {"layer_types": ["mamba"], "position_embedding_type": "nope", "num_local_experts": 8},
        _GRANITE_FACTORS | {"shared_intermediate_size"},
    ),
    "GraniteMoeForCausalLM": Family(
        "granitemoe", {"norm_topk_prob": True},
        {"num_local_experts": 8, "num_experts_per_tok": 2}, _GRANITE_FACTORS | {"experts"},
    ),
    "Phi3ForCausalLM": Family(  # Phi-4-mini, too
        "phi3", {"fused_projections": ("qkv_proj", "gate_up_proj")}, {"rms_norm_eps": 1e-5},
        _WINDOW | {"partial_rotary_factor"},
    ),
    "Olmo2ForCausalLM": Family(
        "olmo2", {"norm_position": "after", "qk_norm": "all_heads"}, {"rms_norm_eps": 1e-5}
    ),
    "Gemma3ForCausalLM": Family(
        "gemma3_text",
        {
            "norm_position": "around", "norm_adds_one": True, "qk_norm": "each_head",
            "scaled_embedding": True,
        },
        {
            "hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "tie_word_embeddings": True,
            "rope_theta": 1e6, "rope_local_base_freq": 1e4, "query_pre_attn_scalar": 256,
            "sliding_window": 4096, "sliding_window_pattern": 6, "max_position_embeddings": 131072,
        },
        _WINDOW | {"rope_local_base_freq", "query_pre_attn_scalar"},
    ),
    "Ernie4_5ForCausalLM": Family(
        "ernie4_5", {"interleaved_rotation": True},
        {"rope_theta": 5e5, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "head_dim": 128},
    ),
}  # fmt: skip
"""Architecture, as config.json names it -> what is special about it."""
TORCH_DTYPES = ("float32", "bfloat16", "float16")
MAX_LAYERS = MAX_EXPERTS = 1024
MAX_SIZE = 1 << 24
"""Upper bound for all other numbers in a config: a damaged number must not fill the memory."""
_Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
_Real = Annotated[float, Meta(gt=0, le=1e30)]
_FACTORS = _GRANITE_FACTORS | {"logit_scale", "query_pre_attn_scalar"}
"""Keys of Granite, Cohere and Gemma; some of their checkpoints use Llama's architecture name."""


class Llama3RopeScaling(msgspec.Struct, frozen=True):
    """Llama 3.1's rotary scaling: it divides low frequencies by `factor`, and keeps high ones."""

    factor: _Real
    low_freq_factor: _Real
    high_freq_factor: _Real
    original_max_position_embeddings: _Size


class LongRopeScaling(NamedTuple):
    """A divisor for each frequency: Phi-4-mini, Gemma 3 (all equal), or Llama 3 in a GGUF file."""

    divisors: tuple[float, ...]
    attention_factor: float = 1.0  # Cosines and sines are multiplied by it.


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

    num_hidden_layers: Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
    partial_rotary_factor: Annotated[float, Meta(gt=0, le=1)] = 1.0
    no_rope_layers: list[int] = []
    """0 for each layer without rotation; the other way round than the name says."""
    sliding_window: Annotated[int, Meta(ge=0, le=MAX_SIZE)] = 0
    use_sliding_window: bool = True
    max_window_layers: int = 0
    """The first layer with a window, if `layer_types` does not say which layers have one."""
    sliding_window_pattern: int = 0  # In this case, every n-th layer has no window.
    query_pre_attn_scalar: _Real | None = None
    hidden_activation: str = "silu"
    num_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    num_local_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    """Another name of `num_experts`; transformers 5 writes this one."""


class _Rope(msgspec.Struct):
    rope_theta: _Real = 10000.0
    rope_type: str = ""
    type: str = "default"
    factor: _Real = 1.0


class _RopeOfKinds(msgspec.Struct):
    """Rope settings for each kind of layer, if there are several."""

    full_attention: dict[str, Any] = {}
    sliding_attention: dict[str, Any] = {}


class _LongRope(msgspec.Struct):
    short_factor: list[_Real]  # Divisors for up to `original_max_position_embeddings` tokens.
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
    rotary_size: int = 0  # How many of a head's features are rotated: all, except in Phi-4-mini.
    interleaved_rotation: bool = False
    """The rotation pairs the features 2i and 2i + 1 of a head (Ernie 4.5), not i and i + half."""
    unrotated_layers: tuple[int, ...] = ()  # Layers without rotation: every fourth in SmolLM3.
    sliding_window: _Size | None = None
    """How many tokens a token sees in `sliding_layers`, itself included."""
    sliding_layers: tuple[int, ...] = ()
    rope_local_base_freq: _Real | None = None
    """`rope_theta` of these layers, without scaling (Gemma 3); None: as the other layers."""
    max_position_embeddings: _Size
    tie_word_embeddings: bool = False
    """The LM head is the embedding table; there is no `lm_head.weight`."""
    attention_bias: bool = False  # q, k and v have a bias (always in Qwen2).
    attention_output_bias: bool = False
    """The output projection has a bias (Llama and Qwen3 with `attention_bias`, never Qwen2)."""
    qk_norm: Literal["each_head", "all_heads"] | None = None
    """Queries and keys are normalized before the rotation: each head (Qwen3), or all (OLMo 2)."""
    norm_position: Literal["before", "after", "around"] = "before"
    """The norms of attention and MLP: of inputs, of results (OLMo 2), of both (Gemma 3)."""
    norm_adds_one: bool = False  # Norms multiply by 1 + weight, in float32 (Gemma 3).
    hidden_act: Literal["silu", "gelu_pytorch_tanh"] = "silu"
    fused_projections: tuple[str, ...] = ()
    """The checkpoint stores q, k, v as one matrix (Phi-3, Phi-4-mini), or gate and up."""
    scaled_embedding: bool = False
    """Embeddings are multiplied by sqrt(hidden_size), rounded to their dtype (Gemma 3)."""
    embedding_multiplier: _Real = 1.0
    residual_multiplier: _Real = 1.0
    """For the results of attention and MLP (Granite, like the next two and the one before)."""
    attention_multiplier: _Real | None = None
    """For the products of queries and keys; None is 1 / sqrt(head_size)."""
    logits_scaling: _Real = 1.0  # A divisor of the logits.
    num_experts: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    """MLPs of each layer of which a token takes few (mixture of experts); 0: a layer has one MLP"""
    num_experts_per_tok: Annotated[int, Meta(ge=0, le=MAX_EXPERTS)] = 0
    moe_intermediate_size: _Size | None = None  # Width of each expert; None is `intermediate_size`.
    norm_topk_prob: bool = False  # The shares of a token's experts are scaled to a sum of 1.
    decoder_sparse_step: _Size = 1
    """Of a model with experts, every n-th layer has them, and the others have one MLP."""
    mlp_only_layers: tuple[int, ...] = ()  # Further layers with one MLP.
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
        # null is the same as a missing key, except that it can mean: no window.
        given = {k: v for k, v in hf.items() if v is not None or k == "sliding_window"}
        hf = {**family.defaults, **given}
        kind = _read(hf, _Kind)
        _refuse_what_we_do_not_compute(hf, kind, architecture)

        heads, switches = _read(hf, _Heads), _read(_rope_options(hf, kind) | hf, _Switches)
        head_size = heads.head_dim or heads.hidden_size // heads.num_attention_heads
        rotary_size = int(head_size * switches.partial_rotary_factor)
        rope_theta, rope_scaling, longest = _rope(_rope_options(hf, kind), hf, rotary_size)
        local_rope = _read(kind.rope_parameters, _RopeOfKinds).sliding_attention
        scalar = switches.query_pre_attn_scalar
        has_windows = "sliding_window" in family.keys
        layers = _sliding_layers(kind.layer_types, switches) if has_windows else []
        own = {
            "architecture": architecture,
            "num_key_value_heads": heads.num_key_value_heads or heads.num_attention_heads,
            "head_size": head_size,
            "intermediate_size": hf.get("shared_intermediate_size", hf.get("intermediate_size")),
            "rope_theta": rope_theta,
            "rope_scaling": None,
            "rotary_size": rotary_size,
            "unrotated_layers": [i for i, rope in enumerate(switches.no_rope_layers) if not rope],
            "max_position_embeddings": longest,
            "sliding_window": switches.sliding_window if layers else None,
            "sliding_layers": layers,
            "rope_local_base_freq": local_rope.get("rope_theta", hf.get("rope_local_base_freq")),
            "attention_multiplier": scalar**-0.5 if scalar else hf.get("attention_multiplier"),
            "hidden_act": hf.get("hidden_activation", hf.get("hidden_act")),
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
    def windows(self) -> tuple[int, ...]:
        """For each layer, how many tokens a token sees, itself included; 0 for all."""
        sliding, window = set(self.sliding_layers), self.sliding_window or 0
        if window >= self.max_position_embeddings:  # no context fills it
            window = 0
        return tuple(window * (i in sliding) for i in range(self.num_hidden_layers))

    @property
    def is_llama(self) -> bool:
        """Whether the layers compute what Llama's do, biases apart: then layers.c can run them."""
        return (
            self.qk_norm is None
            and self.norm_position == "before"
            and self.hidden_act == "silu"
            and len(set(self.windows)) == 1
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
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half of a surrogate pair
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
    kinds = _read(kind.rope_parameters, _RopeOfKinds)
    act = hf.get("hidden_activation", hf.get("hidden_act", "silu"))
    is_other = act not in ("silu", "gelu_pytorch_tanh")
    # No context fills the window of Phi-4-mini. Qwen has a flag that says whether it has one.
    window, longest = hf.get("sliding_window"), hf.get("max_position_embeddings", 0)
    fills = bool(window) and not (isinstance(window, int) and window >= longest)
    slides, is_known = hf.get("use_sliding_window", fills), "sliding_window" in computed
    reasons = {
        "experts": "experts" not in computed
        and any(value for key, value in hf.items() if "expert" in key or key.startswith("moe_")),
        "experts that all tokens share": any(hf[k] for k in hf.keys() - computed if "shared" in k),
        "clipped queries and keys": bool(hf.get("clip_qkv")),
        "latent attention (kv_lora_rank)": bool(hf.get("kv_lora_rank")),
        "a hidden_act other than silu or gelu_pytorch_tanh": is_other,
        "biases in the MLP": bool(hf.get("mlp_bias") or hf.get("use_bias")),
        "sliding-window attention": bool(slides) and not is_known,
        "several kinds of layers": set(kind.layer_types)
        - {"full_attention", "attention", "sliding_attention" if is_known and window else ""},
        "attention to later tokens": bool(hf.get("use_bidirectional_attention")),
        "a rotary embedding for part of each head": (
            "partial_rotary_factor" not in computed
            and rope.get("partial_rotary_factor") not in (None, 1)
        ),
        "layers without a rotary embedding": (
            ("no_rope_layers" not in computed and bool(hf.get("no_rope_layers")))
            or hf.get("position_embedding_type", "rope") != "rope"
        ),
        "a rotary embedding for each kind of layer": (
            "rope_local_base_freq" not in computed
            and (kinds != _RopeOfKinds() or hf.get("rope_local_base_freq") is not None)
        ),
        "a scaled rotary embedding in its layers with a window": (
            kinds.sliding_attention.get("rope_type", "default") != "default"
        ),
        "capped attention scores (attn_logit_softcapping)": bool(hf.get("attn_logit_softcapping")),
        "capped logits (final_logit_softcapping)": bool(hf.get("final_logit_softcapping")),
        "scaled attention or logits": any(
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
    rope_scaling, num_pairs = config.rope_scaling, config.rotary_size // 2
    num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
    if num_heads % num_kv_heads:
        raise ModelIntegrityError(
            f"num_attention_heads ({num_heads}) must be a multiple of num_key_value_heads"
            f" ({num_kv_heads}); check the model's config.json."
        )
    if config.head_size % 2 or config.rotary_size % 2 or num_heads * config.head_size > MAX_SIZE:
        raise ModelIntegrityError(
            f"{num_heads} heads of size {config.head_size} are not possible: check head_dim"
            " and num_attention_heads in config.json."
        )
    if config.num_experts and not 1 <= config.num_experts_per_tok <= config.num_experts:
        raise ModelIntegrityError(
            f"A token cannot take {config.num_experts_per_tok} of {config.num_experts} experts:"
            " check num_experts_per_tok in config.json."
        )
    if isinstance(rope_scaling, LongRopeScaling) and len(rope_scaling.divisors) != num_pairs:
        raise ModelIntegrityError(
            f"short_factor has {len(rope_scaling.divisors)} numbers in config.json, but"
            f" {num_pairs} pairs of features are rotated; check the file."
        )
    if config.dtype not in TORCH_DTYPES:
        raise UnsupportedModelError(
            f"Weights stored as {config.dtype:.50} are not supported; use one of"
            f" {', '.join(TORCH_DTYPES)}."
        )


def _sliding_layers(layer_types: list[str], switches: _Switches) -> list[int]:
    if len(layer_types) not in (0, switches.num_hidden_layers):
        raise ModelIntegrityError(
            f"layer_types has {len(layer_types)} entries for {switches.num_hidden_layers} layers in"
            " config.json; check the file."
        )
    if not (switches.sliding_window and switches.use_sliding_window):
        return []
    if layer_types:
        return [i for i, kind in enumerate(layer_types) if kind == "sliding_attention"]
    pattern, layers = switches.sliding_window_pattern, range(switches.num_hidden_layers)
    later = layers[max(switches.max_window_layers, 0) :]
    return [i for i in later if not pattern or (i + 1) % pattern]


def _rope_options(hf: Mapping[str, Any], kind: _Kind) -> dict[str, Any]:
    """Return the rope settings, of transformers 4 and 5, as one flat dictionary.

    Of several kinds of layers, those of full attention.
    """
    options = {key: hf[key] for key in ("rope_theta", "partial_rotary_factor") if key in hf}
    kinds = _read(kind.rope_parameters, _RopeOfKinds)
    return options | kind.rope_scaling | (kinds.full_attention or kind.rope_parameters)


def _rope(
    options: dict[str, Any], hf: Mapping[str, Any], rotary_size: int
) -> tuple[float, Llama3RopeScaling | LongRopeScaling | None, int | None]:
    """Return the base, the scaling, and the longest sequence for which both hold."""
    rope, longest = _read(options, _Rope), hf.get("max_position_embeddings")
    rope_type = rope.rope_type or rope.type
    key = "original_max_position_embeddings"
    trained = {key: hf.get(key, longest)}
    match rope_type:
        case "default":
            return rope.rope_theta, None, longest
        case "linear":
            return rope.rope_theta, LongRopeScaling((rope.factor,) * (rotary_size // 2)), longest
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
        " default, linear, llama3 or longrope."
    )
