"""config.json of both generations of transformers: read correctly or refused."""

import pytest
import transformers

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.model.model_config import Llama3RopeScaling, ModelConfig

# As on the Hub, written by transformers 4.
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 49152,
}
LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


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


def test_a_scaled_rope_is_read_from_either_generation():
    old = SMOLLM2 | {"rope_scaling": LLAMA3_ROPE}
    new = without("rope_theta") | {"rope_parameters": LLAMA3_ROPE | {"rope_theta": 100000.0}}
    assert ModelConfig.from_hf_dict(old) == ModelConfig.from_hf_dict(new)
    expected = {name: value for name, value in LLAMA3_ROPE.items() if name != "rope_type"}
    assert ModelConfig.from_hf_dict(old).rope_scaling == Llama3RopeScaling(**expected)


@pytest.mark.parametrize(
    ("config", "biases"),
    [
        (transformers.LlamaConfig(), (False, False, False)),
        (transformers.LlamaConfig(attention_bias=True), (True, True, False)),
        (transformers.Qwen2Config(), (True, False, False)),
        (transformers.Qwen3Config(), (False, False, True)),
    ],
    ids=["llama", "llama with biases", "qwen2", "qwen3"],
)
def test_each_architecture_has_its_biases_and_norms(config, biases):
    # it names no architecture, so model_type decides
    ours = ModelConfig.from_hf_dict(config.to_dict())
    assert (ours.attention_bias, ours.attention_output_bias, ours.qk_norm) == biases


def test_a_config_that_leaves_out_its_defaults_is_read():
    sparse = without(
        "num_key_value_heads", "rope_theta", "rope_scaling", "tie_word_embeddings", "torch_dtype"
    )
    config = ModelConfig.from_hf_dict(sparse | {"head_dim": None})
    assert (config.num_key_value_heads, config.rope_theta) == (9, 10000.0)
    assert not config.tie_word_embeddings


def test_an_unsupported_architecture_is_refused_with_the_supported_ones():
    with pytest.raises(UnsupportedModelError) as error:
        ModelConfig.from_hf_dict(SMOLLM2 | {"architectures": ["MambaForCausalLM"]})
    for name in ("MambaForCausalLM", "LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"):
        assert name in str(error.value)
    with pytest.raises(UnsupportedModelError, match="gpt2"):
        ModelConfig.from_hf_dict({"model_type": "gpt2"})


@pytest.mark.parametrize(
    "difference",
    [
        {"hidden_act": "gelu"},
        {"mlp_bias": True},
        {"use_sliding_window": True},
        {"partial_rotary_factor": 0.5},
        {"quantization_config": {"quant_method": "awq"}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
        {"torch_dtype": "float8_e4m3fn"},
        {"num_experts": 8},
        {"sliding_window": 4096},
        {"layer_types": ["full_attention", "chunked_attention"]},
        {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "other": {"rope_theta": 1e4}}},
        {"final_logit_softcapping": 30.0},
        {"model_type": "mixtral"},
        {"architectures": ["MixtralForCausalLM"], "model_type": "llama"},
    ],
    ids=str,
)
def test_an_unsupported_option_is_refused(difference):
    with pytest.raises(UnsupportedModelError):
        ModelConfig.from_hf_dict(SMOLLM2 | difference)


@pytest.mark.parametrize(
    ("difference", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": "30"}, "num_hidden_layers"),
        ({"num_key_value_heads": 2}, "num_key_value_heads"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
        ({"rope_scaling": LLAMA3_ROPE | {"high_freq_factor": 1.0}}, "low_freq_factor"),
        (
            {"rope_scaling": LLAMA3_ROPE | {"original_max_position_embeddings": 2**60}},
            "original_max_position",
        ),
        ({"rope_theta": "100000"}, "rope_theta"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rms_norm_eps": -1e-5}, "rms_norm_eps"),
        ({"vocab_size": 2**40}, "vocab_size"),
        ({"max_position_embeddings": 10**30}, "max_position_embeddings"),
        ({"num_attention_heads": True, "num_key_value_heads": 1}, "num_attention_heads"),
        ({"head_dim": 63}, "head_dim"),
        ({"hidden_size": "a" * 100_000}, "hidden_size"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"layer_types": [["sliding_attention"]]}, "layer_types"),
        ({"attention_bias": "false"}, "attention_bias"),
    ],
    ids=str,
)
def test_a_missing_or_impossible_value_is_named_in_one_sentence(difference, named):
    with pytest.raises(ModelIntegrityError, match=named) as error:
        ModelConfig.from_hf_dict(SMOLLM2 | difference)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "difference",
    [
        {"num_experts": 0, "num_local_experts": None},
        {"auto_map": {"AutoModel": "trap.T"}, "trust_remote_code": True, "anything": [[1]]},
        {"sliding_window": None},
        {
            "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"],
            "sliding_window": 32768,
            "max_window_layers": 28,
        },
        {"use_sliding_window": False, "sliding_window": 4096},
        {"logit_scale": 1.0, "final_logit_softcapping": None},
        {"layer_types": ["full_attention"] * 30},
    ],
    ids=str,
)
def test_disabled_or_irrelevant_options_change_nothing(difference):
    kind = {
        key: value for key, value in difference.items() if key in ("model_type", "architectures")
    }
    assert ModelConfig.from_hf_dict(SMOLLM2 | difference) == ModelConfig.from_hf_dict(
        SMOLLM2 | kind
    )
