"""Records the engine with a fault: `python -m minivllm.lessons.checker.bugs.record [NAME...]`.

The recipe of an exercise, in its `mistakes.toml`, has the fault as a change of source lines, the
options of the house model's engine and its requests.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.lessons.checker.catalogue import Exercise, edited, exercises, find_exercise
from minivllm.lessons.scenarios.house import QUICK
from minivllm.sampling_params import SamplingParams


def record(exercise: Exercise, path: Path, *, has_fault: bool = True) -> None:
    """Run the requests of the recipe and write every event to `path`."""
    recipe = exercise.recipe
    options = {**QUICK, "dtype": "float32", "device": "cpu", **recipe["options"]}
    config = EngineConfig(model="house", **options)
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    pending = recipe["request"]
    fault = broken(**recipe["fault"]) if has_fault else nullcontext()
    with LogWriter(path, engine.log_header()) as writer, fault:
        engine.subscribe(writer.write)
        for step in range(recipe["steps"]):
            while pending and pending[0]["arrives"] <= step:
                _send(engine, pending.pop(0))
            engine.step()
            if not pending and not engine.has_unfinished_requests():
                return


def _send(engine: LLMEngine, request: dict[str, Any]) -> None:
    messages = [{"role": "system", "content": request["system"]}] if "system" in request else []
    messages += [{"role": "user", "content": request["prompt"]}]
    token_ids = engine.tokenizer.apply_chat_template(messages)
    n, more = request.get("n", 1), {"ignore_eos": True, "max_tokens": request["max_tokens"]}
    params = SamplingParams(n=n, temperature=float(n > 1), seed=1, **more)
    prompt = {"prompt_token_ids": token_ids, "prompt": request["prompt"]}
    engine.add_request(request["name"], prompt, params, request.get("priority", 0))


def broken(method: str, old: str, new: str) -> AbstractContextManager[object]:
    """Replace the method `module:Class.method` by its changed version while the context is open."""
    module_name, _, name = method.partition(":")
    class_name, _, name = name.partition(".")
    module = import_module(module_name)
    source = Path(module.__file__).read_text(encoding="utf-8")
    changed = {"__name__": module_name}
    exec(edited(source, old, new, method), changed)  # noqa: S102 (our own source)
    return patch.object(getattr(module, class_name), name, getattr(changed[class_name], name))


if __name__ == "__main__":
    for exercise in map(find_exercise, sys.argv[1:]) if sys.argv[1:] else exercises():
        if exercise.finds_bug:
            for path in exercise.recordings:
                record(exercise, path, has_fault=path == exercise.recording)
                print(path)
