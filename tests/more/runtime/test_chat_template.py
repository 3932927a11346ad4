"""A template is untrusted code: whatever it does costs one request and bounded memory.

It runs in a child process, which runs no code beside the weights either.
"""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minivllm.config import EngineConfig
from minivllm.errors import InvalidRequestError
from minivllm.runtime.loader import load_model
from minivllm.runtime.text.chat_template import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hi"}]
LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
HUNGRY = {
    "doubles a string": (
        "{% set ns = namespace(x='ab') %}" + "{% set ns.x = ns.x ~ ns.x %}" * 40 + "{{ ns.x }}"
    ),
    "ljust": "{{ 'a'.ljust(10 ** 9) | length }}",
    "powers": "{{ 9 ** (9 ** 9) }}",
    "loops": LOOPS,
    "deep macros": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "deep brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "too long a text": "{{ 'x' * 5000000 }}",
}
"""Each exceeds its limit of time or memory."""


@pytest.mark.parametrize("source", HUNGRY.values(), ids=HUNGRY.keys())
def test_a_template_over_its_limits_fails_its_request_in_one_sentence(source):
    with pytest.raises(InvalidRequestError, match="chat template") as refused:
        ChatTemplate(source, {}, max_seconds=0.5).render(MESSAGES)
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_other_conversations_are_rendered_while_one_takes_too_long_and_after():
    template = ChatTemplate(
        "{% if messages[0].content == 'slow' %}" + LOOPS + "{% endif %}{{ messages[0].content }}",
        {},
        max_seconds=0.5,
    )
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(template.render, [{"role": "user", "content": "slow"}])
        rendered = 0
        while not ends.done():
            assert template.render([{"role": "user", "content": "quick"}]) == "quick"
            rendered += 1
    assert isinstance(ends.exception(), InvalidRequestError) and rendered > 0
    assert template.render([{"role": "user", "content": "after"}]) == "after"


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
