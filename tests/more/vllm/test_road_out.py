"""What `to-vllm` prints is what vLLM takes: its commands, and a script with the same answer."""

import json
import shlex

import pytest
from support.vllm.real_vllm import ROOT, needs_vllm, output_with_vllm, run_with_vllm

from minivllm import LLM, SamplingParams
from minivllm.cli import main
from minivllm.runtime.store.model_store import resolve_for_transformers

PARSE = ROOT / "tests/support/vllm/parse_commands.py"

COMMANDS = [
    "tiny-random",
    "tiny-random --max-num-seqs 64 --max-num-batched-tokens 2048 --max-model-len 512 --dtype float32",
    "tiny-random --gpus 4 --machines 2 --gpu-memory 24 --port 8001 --host 0.0.0.0",
    "tiny-random --gpus 4 --tensor-parallel-size 1 --pipeline-parallel-size 2",
    "tiny-random --no-enable-prefix-caching --no-enable-chunked-prefill --scheduling-policy priority",
    "tiny-random --num-gpu-blocks-override 32 --block-size 32 --enforce-eager --seed 7",
    "tiny-random --kv-cache-memory-bytes 100000000 --served-model-name a-name",
    'tiny-random --speculative-config {"method":"ngram","num_speculative_tokens":3}',
]


def commands_of(printed: str) -> list[list[str]]:
    lines = "\n".join(line for line in printed.splitlines() if not line.startswith("#"))
    commands = lines.replace("\\\n", " ").split("vllm serve ")[1:]
    return [["serve", *shlex.split(command.partition("\n")[0])] for command in commands]


@needs_vllm
def test_vllms_own_parser_takes_every_command(capsys):
    commands = []
    for words in COMMANDS:
        assert main(["to-vllm", *words.split()]) == 0
        commands += commands_of(capsys.readouterr().out)
    assert len(commands) == len(COMMANDS) + 1, "two machines have a command each"
    parsed = run_with_vllm(PARSE, typed=json.dumps(commands))
    assert len(parsed) == len(commands)
    assert parsed[1]["max_num_seqs"] == 64 and parsed[1]["max_model_len"] == 512
    assert parsed[5]["scheduling_policy"] == "priority"
    assert parsed[7]["served_model_name"] in ("a-name", ["a-name"])


@needs_vllm
@pytest.mark.slow
def test_the_script_gives_the_greedy_answer_of_our_engine(tmp_path, capsys):
    checkpoint = str(resolve_for_transformers("smollm2"))  # float32: both have the same weights
    words = "--dtype float32 --block-size 32 --num-gpu-blocks-override 16 --max-model-len 256"
    assert main(["to-vllm", checkpoint, *words.split(), "--enforce-eager"]) == 0
    script = "from vllm" + capsys.readouterr().out.partition("from vllm")[2]
    (tmp_path / "script.py").write_text(script)
    llm = LLM(checkpoint, dtype="float32", block_size=32, num_gpu_blocks_override=16)
    params = SamplingParams(temperature=0, max_tokens=16)
    (ours,) = llm.generate(["The capital of France is"], params)
    assert ours.outputs[0].text + "\n" in output_with_vllm(tmp_path / "script.py")
