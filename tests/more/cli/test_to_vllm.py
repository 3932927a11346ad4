"""`minivllm to-vllm`: sizes that fit model and machine, and options that vLLM's parser takes."""

import shlex

import pytest

from minivllm.cli import main
from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.lab import vllm_export
from minivllm.runtime.model.model_config import ModelConfig

# The shape of Llama 3.1 8B: 8.03 billion parameters.
LLAMA_8B = ModelConfig(
    architecture="LlamaForCausalLM", vocab_size=128256, hidden_size=4096,
    intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
    head_size=128, rms_norm_eps=1e-5, rope_theta=500000.0, max_position_embeddings=131072,
)  # fmt: skip


@pytest.mark.parametrize(
    ("num_gpus", "gib", "machines", "sizes"),
    [(4, 80, 1, (1, 1, 4)), (8, 16, 1, (2, 1, 4)), (8, 4, 1, (8, 1, 1)), (8, 5, 4, (2, 4, 1))],
    ids=["copied, not cut", "cut over as few as possible", "cut over all", "cut over machines"],
)
def test_a_model_is_split_over_few_gpus_and_copied_to_the_others(num_gpus, gib, machines, sizes):
    hardware = vllm_export.Hardware(num_gpus, machines, gib, 0.9)
    found = vllm_export.choose_sizes(LLAMA_8B, hardware, item_size=2, max_model_len=8192)
    assert (found.tensor, found.pipeline, found.data) == sizes
    with pytest.raises(ConfigError, match=r"need 8\.0 GiB on each GPU .* where 6\.2 are usable"):
        vllm_export.choose_sizes(
            LLAMA_8B, vllm_export.Hardware(2, 1, 8, 0.9), item_size=2, max_model_len=8192
        )


def target(
    config: EngineConfig, num_gpus: int = 1, gib: float = 80.0, machines: int = 1, **server: object
) -> vllm_export.Deployment:
    hardware = vllm_export.Hardware(num_gpus, machines, gib, config.gpu_memory_utilization)
    sizes = vllm_export.choose_sizes(LLAMA_8B, hardware, item_size=2, max_model_len=8192)
    return vllm_export.Deployment("org/model", config, sizes, hardware, server)


def test_every_option_is_either_passed_on_or_explained():
    assert {*vllm_export.SAME, *vllm_export.WITHOUT, "model"} == set(
        EngineConfig.__dataclass_fields__
    )


def test_each_machine_gets_a_command_of_its_own():
    server = {"port": 8001, "served_model_name": "my model; rm"}
    first, second = vllm_export.vllm_commands(
        target(EngineConfig(), num_gpus=4, machines=2, **server)
    )
    assert "--data-parallel-size 4" in first and "--data-parallel-size-local 2" in first
    assert "--headless" not in first and "--headless" in second
    assert "my model; rm" in shlex.split(first), "a value that a shell would read is quoted"
    assert "--data-parallel-start-rank 2" in second and "--port" not in second
    # One copy over both machines.
    first, second = vllm_export.vllm_commands(target(EngineConfig(), num_gpus=8, gib=4, machines=2))
    assert "--nnodes 2" in first and "--node-rank 0" in first and "--headless" not in first
    assert "--node-rank 1" in second and "--master-addr ADDRESS" in second
    assert "--headless" in second


def test_the_output_can_be_pasted_into_a_shell(capsys):
    arguments = "to-vllm tiny-random --gpus 2 --batching static --port 9"
    assert main(arguments.split()) == 0
    out = capsys.readouterr().out
    assert "# batching='static' has no counterpart in vLLM: " in out
    assert "--data-parallel-size 2" in out and "--port 9" in out
    before, begin, script = out.partition("from vllm import")
    compile(begin + script, "script", "exec")
    commands = [line for line in before.splitlines() if line and not line.startswith(("#", "    "))]
    assert [line.split()[:2] for line in commands] == [["vllm", "serve"]]
