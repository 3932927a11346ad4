"""config.json of both generations of transformers: read correctly or refused."""

import pytest

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.model.model_config import Llama3RopeScaling, ModelConfig

# As on the Hub, written by transformers 4.
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "hidden_act": "silu",
    "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 8192,
    "mlp_bias": False, "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
    "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
    "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "vocab_size": 49152,
}  # fmt: skip
LLAMA3_ROPE = {
    "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3",
}  # fmt: skip


GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}


def without(*names: str) -> dict:
    return {key: value for key, value in SMOLLM2.items() if key not in names}


def test_a_config_of_either_generation_of_transformers_is_read():
    config = ModelConfig.from_hf_dict(SMOLLM2)
    assert (config.head_size, config.num_key_value_heads, config.rope_theta) == (64, 3, 100000.0)
    assert config.tie_word_embeddings and not config.attention_bias and not config.qk_norm
    assert (config.dtype, config.rms_norm_eps, config.rope_scaling) == ("bfloat16", 1e-5, None)
    new = without("rope_theta", "rope_scaling", "torch_dtype") | {
        "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
        "dtype": "bfloat16",
    }
    assert ModelConfig.from_hf_dict(new) == config
    # a rope that is scaled
    old = ModelConfig.from_hf_dict(SMOLLM2 | {"rope_scaling": LLAMA3_ROPE})
    new = without("rope_theta") | {"rope_parameters": LLAMA3_ROPE | {"rope_theta": 100000.0}}
    assert old == ModelConfig.from_hf_dict(new)
    expected = {name: value for name, value in LLAMA3_ROPE.items() if name != "rope_type"}
    assert old.rope_scaling == Llama3RopeScaling(**expected)
    # and one without what has a default
    sparse = without("num_key_value_heads", "rope_theta", "tie_word_embeddings", "torch_dtype")
    config = ModelConfig.from_hf_dict(sparse | {"head_dim": None})
    assert (config.num_key_value_heads, config.rope_theta) == (9, 10000.0)
    assert not config.tie_word_embeddings


def family(name: str, model_type: str, **others: object) -> dict:
    return {"architectures": [f"{name}ForCausalLM"], "model_type": model_type} | others


QWEN3_MOE = family("Qwen3Moe", "qwen3_moe", num_experts=8, num_experts_per_tok=2)
GRANITE_4 = family(
    "GraniteMoeHybrid", "granitemoehybrid", num_local_experts=0, layer_types=["attention"] * 30,
    position_embedding_type="rope", shared_intermediate_size=1536,
)  # fmt: skip


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (family("Mamba", "mamba"), "MambaForCausalLM.*use one of LlamaForC.*Qwen3ForC.*Ernie"),
        ({"architectures": [], "model_type": "gpt2"}, "gpt2"),
        # Latent attention, and experts with biases.
        *((family(name, "x"), f"{name}ForC") for name in ("Mixtral", "DeepseekV3", "GptOss")),
        (GRANITE_4 | {"layer_types": ["mamba", "attention"]}, "several kinds"),  # states
        (GRANITE_4 | {"num_local_experts": 8}, "has experts,"),
        (GRANITE_4 | {"position_embedding_type": None}, "layers without a rotary embedding"),
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "several kinds of layers"),
        (GEMMA3 | {"layer_types": ["sliding_attention", "chunked_attention"]}, "several kinds"),
        (GEMMA3 | {"sliding_window": None, "layer_types": ["sliding_attention"]}, "several kinds"),
        (family("Qwen3", "qwen3", layer_types=["linear_attention"]), "several kinds"),
        (QWEN3_MOE | {"use_sliding_window": True, "sliding_window": 512}, "sliding-window"),
        ({"sliding_window": 4096}, "sliding-window"),
        (GEMMA3 | {"final_logit_softcapping": 30.0}, "capped logits .final_logit_softcapping"),
        (GEMMA3 | {"attn_logit_softcapping": 50.0}, "capped attention scores .attn_logit_softc"),
        (GEMMA3 | {"use_bidirectional_attention": True}, "attention to later tokens"),
        (GEMMA3 | {"hidden_activation": "gelu"}, "hidden_act other than silu or gelu_pytorch"),
        ({"num_experts": 8}, "has experts,"),
        (QWEN3_MOE | {"mlp_bias": True}, "biases in the MLP"),
        (QWEN3_MOE | {"shared_expert_intermediate_size": 512}, "experts that all tokens share"),
        (family("Olmoe", "olmoe", clip_qkv=8.0), "clipped queries and keys"),
        ({"residual_multiplier": 0.5}, "scaled attention or logits"),  # a Granite's
        ({"no_rope_layers": [1, 1, 1, 0]}, "layers without a rotary embedding"),
        ({"partial_rotary_factor": 0.5}, "for part of each head"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "type 'yarn'"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantized weights"),
        ({"torch_dtype": "float8_e4m3fn"}, "float8_e4m3fn"),
    ],
)  # fmt: skip
def test_what_is_not_computed_is_refused_by_name(difference, words):
    with pytest.raises(UnsupportedModelError, match=words):
        ModelConfig.from_hf_dict(SMOLLM2 | difference)


def test_a_missing_or_impossible_value_is_named_in_one_sentence():
    for name, value in (
        ("hidden_size", None), ("hidden_size", "a" * 100_000), ("num_hidden_layers", "30"),
        ("num_key_value_heads", 2), ("rope_theta", float("nan")), ("vocab_size", 2**40),
        ("head_dim", 63), ("layer_types", [["sliding_attention"]]), ("attention_bias", "false"),
    ):  # fmt: skip
        with pytest.raises(ModelIntegrityError, match=name) as error:
            ModelConfig.from_hf_dict(SMOLLM2 | {name: value})
        assert len(str(error.value)) < 200
    with pytest.raises(ModelIntegrityError, match="surrogates not allowed"):
        ModelConfig.from_hf_dict(SMOLLM2 | {"vocab_size": "\ud800"})


def test_disabled_or_irrelevant_options_change_nothing():
    qwen2 = SMOLLM2 | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    for base, difference in (
        (SMOLLM2, {"num_experts": 0, "num_local_experts": None}),
        (SMOLLM2, {"auto_map": {"AutoModel": "trap.T"}, "trust_remote_code": True}),
        (SMOLLM2, {"use_sliding_window": False, "sliding_window": 4096}),
        (SMOLLM2, {"logit_scale": 1.0, "final_logit_softcapping": None}),
        (SMOLLM2, {"layer_types": ["full_attention"] * 30}),
        (SMOLLM2, {"sliding_window": 8192}),  # no sequence is longer
        (SMOLLM2 | GRANITE_4, {"layer_types": ["full_attention"] * 30, "intermediate_size": 7}),
        (qwen2, {"sliding_window": 32768, "max_window_layers": 28}),
    ):
        assert ModelConfig.from_hf_dict(base | difference) == ModelConfig.from_hf_dict(base)


def test_sequences_end_where_the_frequencies_of_short_ones_no_longer_hold():
    phi3 = SMOLLM2 | {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"]}
    rope = {"type": "longrope", "short_factor": [1.5] * 24, "long_factor": [1.5] * 24}
    phi3 |= {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 4096}
    same = ModelConfig.from_hf_dict(phi3 | {"rope_scaling": rope})
    assert (same.rotary_size, same.max_position_embeddings) == (48, 8192)
    other = ModelConfig.from_hf_dict(phi3 | {"rope_scaling": rope | {"long_factor": [9.0] * 24}})
    assert other.max_position_embeddings == 4096
    with pytest.raises(ModelIntegrityError, match=r"23 numbers .* 24 pairs"):
        ModelConfig.from_hf_dict(phi3 | {"rope_scaling": rope | {"short_factor": [1.5] * 23}})


def test_layers_with_a_window_are_listed_by_the_config_or_follow_from_the_familys_rule():
    pattern = [512 if (i + 1) % 6 else 0 for i in range(30)]
    kinds = ["sliding_attention" if window else "full_attention" for window in pattern]
    qwen = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    mistral = {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
    for difference, windows in (
        (GEMMA3 | {"sliding_window": 512}, pattern),
        (GEMMA3 | {"sliding_window": 512, "layer_types": kinds}, pattern),
        (qwen | {"sliding_window": 512, "use_sliding_window": True}, [0] * 28 + [512] * 2),
        (mistral, [4096] * 30),
        # No sequence is longer than 8,192.
        *((mistral | {"sliding_window": window}, [0] * 30) for window in (None, 0, 8192)),
    ):
        config = ModelConfig.from_hf_dict(SMOLLM2 | difference)
        assert list(config.windows) == windows
        assert config.rope_local_base_freq == (1e4 if windows == pattern else None)
    for wrong in ({"layer_types": kinds[:29]}, {"sliding_window": -1}):
        with pytest.raises(ModelIntegrityError, match=next(iter(wrong))):
            ModelConfig.from_hf_dict(SMOLLM2 | GEMMA3 | wrong)
