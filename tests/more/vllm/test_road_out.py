"""Every command that `to-vllm` prints is one that vLLM's own parser takes, with our values."""

import json
import shlex

from support.vllm.real_vllm import ROOT, needs_vllm, run_with_vllm

from minivllm.cli import main

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
