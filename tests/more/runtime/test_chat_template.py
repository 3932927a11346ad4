"""A template is untrusted code: a hungry one costs one request, and none runs Python code."""

import json
import shutil
from pathlib import Path

import pytest

from minivllm.config import EngineConfig
from minivllm.errors import InvalidRequestError
from minivllm.runtime.loader import load_model
from minivllm.runtime.text.chat_template import ChatTemplate

HUNGRY = {
    "too long a text": "{{ 'x' * 5000000 }}",
    "a loop that writes": (
        "{% for i in range(99999) %}{% for j in range(99999) %}xxxxxxxxxx{% endfor %}{% endfor %}"
    ),
    "too long a range": "{% for i in range(10 ** 9) %}{% endfor %}",
    "deep macros": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "deep brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
}


@pytest.mark.parametrize("source", HUNGRY.values(), ids=HUNGRY.keys())
def test_a_template_over_its_limits_fails_its_request_in_one_sentence(source):
    with pytest.raises(InvalidRequestError, match="chat template") as refused:
        ChatTemplate(source, {}).render([{"role": "user", "content": "Hi"}])
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_code_beside_the_weights_is_never_run(tiny_random_path, tmp_path, monkeypatch):
    """A checkpoint whose config asks for its own Python files, as remote code does."""
    model_path = Path(shutil.copytree(tiny_random_path, tmp_path / "model"))
    trap = "import pathlib; pathlib.Path(__file__).with_name('SPRUNG').touch()\nclass Trap: pass\n"
    for name in ("trap.py", "modeling_trap.py", "__init__.py", "conftest.py", "sitecustomize.py"):
        (model_path / name).write_text(trap)
    auto_map = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer"), "trap.Trap")
    asked = {"auto_map": auto_map, "custom_generate": "trap", "tokenizer_class": "Trap"}
    for path in (model_path / "config.json", model_path / "tokenizer_config.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | asked))
    (model_path / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'touch SPRUNG'\ntR.")
    monkeypatch.chdir(model_path)
    model = load_model(EngineConfig(model=str(model_path), device="cpu"))
    assert model.tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert not (model_path / "SPRUNG").exists()
