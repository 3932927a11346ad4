"""`ModelConfig`: the shape of a decoder, read from a checkpoint's `config.json`.

A decoder that ignores one key (a sliding window, a scaled rope, a second bias) writes text that is
fluent, but wrong. So each key that changes the arithmetic is either supported or an error.

Source: transformers 5, `models/{llama,qwen2,qwen3}/configuration_*.py` and
`modeling_rope_utils.py`. Version 4 of transformers wrote the keys `rope_theta` and `rope_scaling`;
version 5 writes both into `rope_parameters`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_MAX_REAL = 1e30
_FACTORS = (
    "attention_multiplier", "attn_logit_softcapping", "embedding_multiplier",
    "final_logit_softcapping", "logit_scale", "logits_scaling", "residual_multiplier",
)  # fmt: skip
"""Keys of Granite, Cohere and Gemma; some of their checkpoints use Llama's architecture name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3RopeScaling:
    """Llama 3.1's rotary scaling: it divides low frequencies by `factor`, and keeps high ones."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_size: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3RopeScaling | None = None
    max_position_embeddings: int
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
        architecture = _architecture(hf)
        _refuse_what_we_do_not_compute(hf, architecture)

        num_heads = _number(hf, "num_attention_heads")
        head_size = _number(hf, "head_dim", default=_number(hf, "hidden_size") // num_heads)
        num_kv_heads = _number(hf, "num_key_value_heads", default=num_heads)
        if num_heads % num_kv_heads:
            raise ModelIntegrityError(
                f"num_attention_heads ({num_heads}) must be a multiple of num_key_value_heads"
                f" ({num_kv_heads}); check the model's config.json."
            )
        if head_size % 2 or num_heads * head_size > MAX_SIZE:
            raise ModelIntegrityError(
                f"{num_heads} heads of size {head_size} are not possible: check head_dim and"
                " num_attention_heads in config.json."
            )
        rope_theta, rope_scaling = _rope(hf)
        has_bias = _flag(hf, "attention_bias")
        return cls(
            architecture=architecture,
            vocab_size=_number(hf, "vocab_size"),
            hidden_size=_number(hf, "hidden_size"),
            intermediate_size=_number(hf, "intermediate_size"),
            num_hidden_layers=_number(hf, "num_hidden_layers", most=MAX_LAYERS),
            num_attention_heads=num_heads,
            num_key_value_heads=num_kv_heads,
            head_size=head_size,
            rms_norm_eps=_real(hf, "rms_norm_eps", 1e-6),
            rope_theta=rope_theta,
            rope_scaling=rope_scaling,
            max_position_embeddings=_number(hf, "max_position_embeddings"),
            # Transformers 5 omits values that equal the class's default: False for Llama and Qwen.
            tie_word_embeddings=_flag(hf, "tie_word_embeddings"),
            attention_bias=has_bias or architecture == "Qwen2ForCausalLM",
            attention_output_bias=has_bias and architecture != "Qwen2ForCausalLM",
            qk_norm=architecture == "Qwen3ForCausalLM",
            dtype=_dtype(hf),
        )


def _architecture(hf: Mapping[str, Any]) -> str:
    names, model_type = _list_of_names(hf, "architectures"), _name(hf, "model_type")
    by_model_type = {model_type: name for name, model_type in SUPPORTED_ARCHITECTURES.items()}
    if not names and model_type in by_model_type:
        return by_model_type[model_type]
    for name in names:
        if name in SUPPORTED_ARCHITECTURES:
            if model_type in (None, SUPPORTED_ARCHITECTURES[name]):
                return name
            names = [f"{name} with model_type {model_type}"]
    found = ", ".join(names) or model_type or "none named"
    raise UnsupportedModelError(
        f"This model's architecture ({found:.100}) is not supported; use one of"
        f" {', '.join(SUPPORTED_ARCHITECTURES)}."
    )


def _refuse_what_we_do_not_compute(hf: Mapping[str, Any], architecture: str) -> None:
    rope = _rope_options(hf)
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
        "several kinds of layers": any(
            kind != "full_attention" for kind in _list_of_names(hf, "layer_types")
        ),
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


def _rope_options(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rope settings, of transformers 4 and 5, as one flat dictionary."""
    options = {key: hf[key] for key in ("rope_theta", "partial_rotary_factor") if key in hf}
    for key in ("rope_scaling", "rope_parameters"):
        if not isinstance(part := hf.get(key) or {}, dict):
            raise _wrong(key, "an object", part)
        options.update(part)
    return options


def _rope(hf: Mapping[str, Any]) -> tuple[float, Llama3RopeScaling | None]:
    options = _rope_options(hf)
    theta = _real(options, "rope_theta", 10000.0)
    kind = _name(options, "rope_type") or _name(options, "type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise UnsupportedModelError(
            f"Rope scaling of type {kind!r:.50} is not supported; use a model with rope type"
            " default or llama3."
        )
    original = _number(
        options, "original_max_position_embeddings", _number(hf, "max_position_embeddings")
    )
    low, high = _real(options, "low_freq_factor"), _real(options, "high_freq_factor")
    if low >= high:
        raise ModelIntegrityError(
            f"low_freq_factor ({low}) must be less than high_freq_factor ({high}) in config.json."
        )
    return theta, Llama3RopeScaling(
        factor=_real(options, "factor"),
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=original,
    )


def _dtype(hf: Mapping[str, Any]) -> str:
    name = (_name(hf, "dtype") or _name(hf, "torch_dtype") or "float32").removeprefix("torch.")
    if name not in TORCH_DTYPES:
        raise UnsupportedModelError(
            f"Weights stored as {name:.50} are not supported; use one of {', '.join(TORCH_DTYPES)}."
        )
    return name


# ---- read one value of a config, which can have any type ----


def _number(
    hf: Mapping[str, Any], key: str, default: int | None = None, most: int = MAX_SIZE
) -> int:
    value = hf.get(key)
    if value is None:
        value = default
    if type(value) is not int or not 1 <= value <= most:
        raise _wrong(key, f"a whole number from 1 to {most}", value)
    return value


def _real(hf: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = hf.get(key)
    if value is None:
        value = default
    if type(value) not in (int, float) or not 0 < value <= _MAX_REAL:  # a NaN fails too
        raise _wrong(key, "a number above 0", value)
    return float(value)


def _flag(hf: Mapping[str, Any], key: str) -> bool:
    value = hf.get(key)
    if value not in (None, False, True):
        raise _wrong(key, "true or false", value)
    return bool(value)


def _name(hf: Mapping[str, Any], key: str) -> str | None:
    value = hf.get(key)
    if not isinstance(value, str | None):
        raise _wrong(key, "a string", value)
    return value


def _list_of_names(hf: Mapping[str, Any], key: str) -> list[str]:
    values = hf.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _wrong(key, "a list of strings", values)
    return values


def _wrong(key: str, needed: str, value: Any) -> ModelIntegrityError:
    return ModelIntegrityError(f"config.json must set {key} to {needed}; got {value!r:.50}.")
