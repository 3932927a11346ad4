"""`bench startup`: its parts come from fresh processes, and slow imports stay out of the way."""

import json
import subprocess
import sys

import pytest

from minivllm.cli import main
from minivllm.lab.bench import startup


@pytest.mark.slow
def test_every_part_is_measured_in_each_process(capsys):
    words = ["--model", "tiny-random", "--processes", "1", "--num-threads", "1", "--json"]
    assert main(["bench", "startup", *words]) == 0
    result = json.loads(capsys.readouterr().out)
    (run,) = result["runs"]
    assert tuple(run) == startup.PARTS and all(seconds > 0 for seconds in run.values())
    assert result["seconds"]["total"] == pytest.approx(sum(run.values()))


def test_a_first_token_imports_no_transformers_and_no_model_conversion_or_download():
    code = (
        "import minivllm, sys; early = 'torch' in sys.modules\nllm = minivllm.LLM('tiny-random',"
        " device='cpu')\nllm.generate({'prompt_token_ids': [1, 2]},"
        " minivllm.SamplingParams(max_tokens=1), use_tqdm=False)\nunwanted = ('transformers',"
        " 'gguf', 'filelock', 'huggingface_hub', 'torch._dynamo', 'sympy', 'jinja2',"
        " 'rich')\nprint(early, [name for name in unwanted if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False []"
