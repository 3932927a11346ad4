"""`ModelConfig`: the shape of a decoder, read from a checkpoint's `config.json`.

Knows nothing of files or weights. It refuses what our decoder would compute wrongly: the easy
mistake is to ignore a key (a sliding window, a scaled rope, a second bias) and to produce fluent
nonsense. So each key that changes the arithmetic is either understood here or an error.

Source: transformers 5, `models/{llama,qwen2,qwen3}/configuration_*.py` and `modeling_rope_utils.py`.
Its version 4 wrote `rope_theta` and `rope_scaling`; version 5 writes both into `rope_parameters`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minivllm.errors import ModelIntegrityError, UnsupportedModelError

# Architecture -> `model_type`, the name that a config without "architectures" goes by.
SUPPORTED_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
TORCH_DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3RopeScaling:
    """Llama 3.1's stretched rotary frequencies: long wavelengths are divided by `factor`, short ones kept."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """All that the decoder needs to know about a model."""

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
    """The output projection has one too (Llama and Qwen3 with `attention_bias`, never Qwen2)."""
    qk_norm: bool = False
    """Each head's query and key are normalised before the rotation (Qwen3)."""
    dtype: str = "float32"
    """What the checkpoint's weights are stored in: `float32`, `bfloat16` or `float16`."""

    @classmethod
    def from_hf_dict(cls, hf: Mapping[str, Any]) -> "ModelConfig":
        """Read the contents of a `config.json`.

        Raises `UnsupportedModelError` for what our decoder does not compute, `ModelIntegrityError` where a
        number is missing or impossible.
        """
        architecture = _architecture(hf)
        _refuse_what_we_do_not_compute(hf, architecture)

        num_heads = _number(hf, "num_attention_heads")
        head_size = _number(hf, "head_dim", default=_number(hf, "hidden_size") // num_heads)
        num_kv_heads = _number(hf, "num_key_value_heads", default=num_heads)
        if num_heads % num_kv_heads:
            raise ModelIntegrityError(
                f"num_attention_heads ({num_heads}) must be a multiple of num_key_value_heads ({num_kv_heads}); "
                "check the model's config.json."
            )
        rope_theta, rope_scaling = _rope(hf)
        has_bias = bool(hf.get("attention_bias", False))
        return cls(
            architecture=architecture,
            vocab_size=_number(hf, "vocab_size"),
            hidden_size=_number(hf, "hidden_size"),
            intermediate_size=_number(hf, "intermediate_size"),
            num_hidden_layers=_number(hf, "num_hidden_layers"),
            num_attention_heads=num_heads,
            num_key_value_heads=num_kv_heads,
            head_size=head_size,
            rms_norm_eps=float(hf.get("rms_norm_eps", 1e-6)),
            rope_theta=rope_theta,
            rope_scaling=rope_scaling,
            max_position_embeddings=_number(hf, "max_position_embeddings"),
            # Transformers 5 leaves out what equals a class's default, and Llama's and Qwen's is False.
            tie_word_embeddings=bool(hf.get("tie_word_embeddings", False)),
            attention_bias=has_bias or architecture == "Qwen2ForCausalLM",
            attention_output_bias=has_bias and architecture != "Qwen2ForCausalLM",
            qk_norm=architecture == "Qwen3ForCausalLM",
            dtype=_dtype(hf),
        )


def _architecture(hf: Mapping[str, Any]) -> str:
    by_model_type = {model_type: name for name, model_type in SUPPORTED_ARCHITECTURES.items()}
    names = list(hf.get("architectures") or [])
    if not names and hf.get("model_type") in by_model_type:
        return by_model_type[hf["model_type"]]
    for name in names:
        if name in SUPPORTED_ARCHITECTURES:
            return name
    found = ", ".join(names) or hf.get("model_type") or "none named"
    raise UnsupportedModelError(
        f"This model's architecture ({found}) is not supported; use one of {', '.join(SUPPORTED_ARCHITECTURES)}."
    )


def _refuse_what_we_do_not_compute(hf: Mapping[str, Any], architecture: str) -> None:
    """Options of these three architectures that change the arithmetic, and that we leave out."""
    reasons = {
        "a hidden_act other than silu": hf.get("hidden_act", "silu") != "silu",
        "biases in its MLP": bool(hf.get("mlp_bias", False)),
        "sliding-window attention": bool(hf.get("use_sliding_window", False))
        or any("sliding" in kind for kind in hf.get("layer_types") or []),
        "a rotary embedding on a part of each head": _rope_options(hf).get("partial_rotary_factor", 1.0) != 1.0,
        "quantized weights": bool(hf.get("quantization_config")),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnsupportedModelError(
                f"This {architecture} has {reason}, which is not supported; use a model without."
            )


def _rope_options(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Both generations of rope settings as one flat dictionary."""
    options = {key: hf[key] for key in ("rope_theta", "partial_rotary_factor") if key in hf}
    for key in ("rope_scaling", "rope_parameters"):
        options.update(hf.get(key) or {})
    return options


def _rope(hf: Mapping[str, Any]) -> tuple[float, Llama3RopeScaling | None]:
    options = _rope_options(hf)
    theta = float(options.get("rope_theta", 10000.0))
    kind = options.get("rope_type") or options.get("type") or "default"
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise UnsupportedModelError(
            f"Rope scaling of type {kind!r} is not supported; use a model with default or llama3."
        )
    original = options.get("original_max_position_embeddings") or hf.get("max_position_embeddings")
    try:
        return theta, Llama3RopeScaling(
            factor=float(options["factor"]),
            low_freq_factor=float(options["low_freq_factor"]),
            high_freq_factor=float(options["high_freq_factor"]),
            original_max_position_embeddings=int(original),
        )
    except (KeyError, TypeError) as error:
        raise ModelIntegrityError(
            f"The llama3 rope scaling in config.json is incomplete ({error}); download it again."
        ) from error


def _dtype(hf: Mapping[str, Any]) -> str:
    name = str(hf.get("dtype") or hf.get("torch_dtype") or "float32").removeprefix("torch.")
    if name not in TORCH_DTYPES:
        raise UnsupportedModelError(
            f"Weights stored as {name} are not supported; use one of {', '.join(TORCH_DTYPES)}."
        )
    return name


def _number(hf: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = hf.get(key)
    if value is None:
        value = default
    if not isinstance(value, int) or value < 1:
        raise ModelIntegrityError(f"config.json must give {key} as a whole number, at least 1; got {value!r}.")
    return value
