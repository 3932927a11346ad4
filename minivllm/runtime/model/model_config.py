"""`ModelConfig`: the shape of a decoder, read from a checkpoint's `config.json`.

A decoder that ignores one key (a sliding window, a scaled rope, a second bias) writes text that is
fluent, but wrong. So each key that changes the arithmetic is either supported or an error.

Source: transformers 5, `models/{llama,qwen2,qwen3}/configuration_*.py` and
`modeling_rope_utils.py`. Version 4 of transformers wrote the keys `rope_theta` and `rope_scaling`;
version 5 writes both into `rope_parameters`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from minivllm.errors import ModelIntegrityError, UnsupportedModelError

# Architecture -> `model_type`, which identifies a config without "architectures".
SUPPORTED_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
TORCH_DTYPES = ("float32", "bfloat16", "float16")
MAX_LAYERS = 1024
MAX_SIZE = 1 << 24
"""Upper bound for all other numbers in a config: a damaged number must not fill the memory."""
_Size = Annotated[int, Meta(ge=1, le=MAX_SIZE)]
_Real = Annotated[float, Meta(gt=0, le=1e30)]
_FACTORS = (
    "attention_multiplier", "attn_logit_softcapping", "embedding_multiplier",
    "final_logit_softcapping", "logit_scale", "logits_scaling", "residual_multiplier",
)  # fmt: skip
"""Keys of Granite, Cohere and Gemma; some of their checkpoints use Llama's architecture name."""


class Llama3RopeScaling(msgspec.Struct, frozen=True):
    """Llama 3.1's rotary scaling: it divides low frequencies by `factor`, and keeps high ones."""

    factor: _Real
    low_freq_factor: _Real
    high_freq_factor: _Real
    original_max_position_embeddings: _Size


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


class _Rope(msgspec.Struct):
    rope_theta: _Real = 10000.0
    rope_type: str = ""
    type: str = "default"


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
    rope_scaling: Llama3RopeScaling | None = None
    max_position_embeddings: _Size
    tie_word_embeddings: bool = False
    """The LM head is the embedding table; there is no `lm_head.weight`."""
    attention_bias: bool = False
    """q, k and v have a bias (always in Qwen2)."""
    attention_output_bias: bool = False
    """The output projection has a bias (Llama and Qwen3 with `attention_bias`, never Qwen2)."""
    qk_norm: bool = False
    """Each head's query and key are normalized before the rotation (Qwen3)."""
    dtype: str = "float32"
    """The dtype of the checkpoint's weights: `float32`, `bfloat16` or `float16`."""

    @classmethod
    def from_hf_dict(cls, hf: Mapping[str, Any]) -> "ModelConfig":
        """Read the contents of a `config.json`.

        Raises `UnsupportedModelError` for a model that our decoder cannot compute, and
        `ModelIntegrityError` for a number that is missing or impossible.
        """
        kind = _read(hf, _Kind)
        architecture = _architecture(kind)
        _refuse_what_we_do_not_compute(hf, kind, architecture)

        heads = _read(hf, _Heads)
        is_qwen2 = architecture == "Qwen2ForCausalLM"
        rope_theta, rope_scaling = _rope(_rope_options(hf, kind), hf)
        own = {
            "architecture": architecture,
            "num_key_value_heads": heads.num_key_value_heads or heads.num_attention_heads,
            "head_size": heads.head_dim or heads.hidden_size // heads.num_attention_heads,
            "rope_theta": rope_theta,
            "rope_scaling": None,
            "attention_bias": heads.attention_bias or is_qwen2,
            "attention_output_bias": heads.attention_bias and not is_qwen2,
            "qk_norm": architecture == "Qwen3ForCausalLM",
            "dtype": (heads.dtype or heads.torch_dtype).removeprefix("torch."),
        }
        # Transformers 5 omits values that equal the class's default, such as untied embeddings.
        config = replace(_read({**hf, **own}, cls), rope_scaling=rope_scaling)
        num_heads, num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        if num_heads % num_kv_heads:
            raise ModelIntegrityError(
                f"num_attention_heads ({num_heads}) must be a multiple of num_key_value_heads"
                f" ({num_kv_heads}); check the model's config.json."
            )
        if config.head_size % 2 or num_heads * config.head_size > MAX_SIZE:
            raise ModelIntegrityError(
                f"{num_heads} heads of size {config.head_size} are not possible: check head_dim"
                " and num_attention_heads in config.json."
            )
        if config.dtype not in TORCH_DTYPES:
            raise UnsupportedModelError(
                f"Weights stored as {config.dtype:.50} are not supported; use one of"
                f" {', '.join(TORCH_DTYPES)}."
            )
        return config


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
    by_model_type = {model_type: name for name, model_type in SUPPORTED_ARCHITECTURES.items()}
    if not names and model_type in by_model_type:
        return by_model_type[model_type]
    for name in names:
        if name in SUPPORTED_ARCHITECTURES:
            if model_type in ("", SUPPORTED_ARCHITECTURES[name]):
                return name
            names = [f"{name} with model_type {model_type}"]
    found = ", ".join(names) or model_type or "none named"
    raise UnsupportedModelError(
        f"This model's architecture ({found:.100}) is not supported; use one of"
        f" {', '.join(SUPPORTED_ARCHITECTURES)}."
    )


def _refuse_what_we_do_not_compute(hf: Mapping[str, Any], kind: _Kind, architecture: str) -> None:
    rope = _rope_options(hf, kind)
    # A Qwen config always has a sliding window, and a flag that says whether the model uses it.
    # Other models always use the window that their config has.
    slides = hf.get(
        "use_sliding_window", not architecture.startswith("Qwen") and bool(hf.get("sliding_window"))
    )
    reasons = {
        "experts": any(
            value for key, value in hf.items() if "expert" in key or key.startswith("moe_")
        ),
        "a hidden_act other than silu": hf.get("hidden_act", "silu") != "silu",
        "biases in the MLP": bool(hf.get("mlp_bias")),
        "sliding-window attention": bool(slides),
        "several kinds of layers": set(kind.layer_types) - {"full_attention"},
        "a rotary embedding for part of each head": (
            rope.get("partial_rotary_factor") not in (None, 1)
        ),
        "a rotary embedding for each kind of layer": any(
            isinstance(value, dict) for value in rope.values()
        ),
        "scaled or capped attention or logits": any(
            hf.get(name) not in (None, 1) for name in _FACTORS
        ),
        "quantized weights": bool(hf.get("quantization_config") or hf.get("compression_config")),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedModelError(
                f"This {architecture} has {reason}, which is not supported; use another model."
            )


def _rope_options(hf: Mapping[str, Any], kind: _Kind) -> dict[str, Any]:
    """Return the rope settings, of transformers 4 and 5, as one flat dictionary."""
    options = {key: hf[key] for key in ("rope_theta", "partial_rotary_factor") if key in hf}
    return options | kind.rope_scaling | kind.rope_parameters


def _rope(options: dict[str, Any], hf: Mapping[str, Any]) -> tuple[float, Llama3RopeScaling | None]:
    rope = _read(options, _Rope)
    rope_type = rope.rope_type or rope.type
    if rope_type == "default":
        return rope.rope_theta, None
    if rope_type != "llama3":
        raise UnsupportedModelError(
            f"Rope scaling of type {rope_type!r:.50} is not supported; use a model with rope type"
            " default or llama3."
        )
    trained = {"original_max_position_embeddings": hf.get("max_position_embeddings")}
    scaling = _read(trained | options, Llama3RopeScaling)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    if low >= high:
        raise ModelIntegrityError(
            f"low_freq_factor ({low}) must be less than high_freq_factor ({high}) in config.json."
        )
    return rope.rope_theta, scaling
