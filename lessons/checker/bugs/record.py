"""Records the engine with a fault: `python -m minivllm.lessons.checker.bugs.record [NAME...]`.

The recipe of an exercise, in its `mistakes.toml`, has the fault as a change of source lines, the
options of the engine and its requests. The changed function runs for real, in the house model's
engine on the virtual clock. So the same recording is written each time.
"""

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, NamedTuple

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import ExerciseError
from minivllm.events.recording.log import LogWriter
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.sampling_params import SamplingParams

FIXED = {
    "model": "house",
    "dtype": "float32",
    "device": "cpu",
    "attention_backend": "torch",
    "linear_backend": "torch",
}


class Fault(NamedTuple):
    method: str
    """`module:Class.method` of the engine."""
    old: str
    new: str


class Recipe(NamedTuple):
    fault: Fault
    steps: int
    """The recording ends after so many steps, or when all requests have ended."""
    options: dict[str, Any]
    requests: list[dict[str, Any]]


def read_recipe(exercise: Exercise) -> Recipe:
    text = (exercise.folder / "mistakes.toml").read_text(encoding="utf-8")
    recipe = tomllib.loads(text)
    return Recipe(Fault(**recipe["fault"]), recipe["steps"], recipe["options"], recipe["request"])


def record(recipe: Recipe, path: Path, *, with_fault: bool = True) -> None:
    """Run the requests of `recipe` and write every event to `path`."""
    engine = LLMEngine.from_config(EngineConfig(**FIXED, **recipe.options), clock=VirtualClock())
    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(writer.write)
        if with_fault:
            with broken(recipe.fault):
                _run(engine, recipe)
        else:
            _run(engine, recipe)


def _run(engine: LLMEngine, recipe: Recipe) -> None:
    pending = list(recipe.requests)
    for step in range(recipe.steps):
        while pending and pending[0]["arrives"] <= step:
            _send(engine, pending.pop(0))
        engine.step()
        if not pending and not engine.has_unfinished_requests():
            return


def _send(engine: LLMEngine, one: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": one["prompt"]}]
    if "system" in one:
        messages.insert(0, {"role": "system", "content": one["system"]})
    prompt = {
        "prompt_token_ids": engine.tokenizer.apply_chat_template(messages),
        "prompt": one["prompt"],
    }
    params = SamplingParams(
        temperature=0.0 if one.get("n", 1) == 1 else 1.0,
        seed=1,
        ignore_eos=True,
        max_tokens=one["max_tokens"],
        n=one.get("n", 1),
    )
    engine.add_request(one["name"], prompt, params, one.get("priority", 0))


# ---- a fault ----


class _Changed(SourceLoader):
    """Loads a module's source with a change."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source = path, source

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._source.encode()


@contextmanager
def broken(fault: Fault) -> Iterator[None]:
    """Replace the method by its changed version while the context is open.

    Raises `ExerciseError` unless the lines to change are in the source exactly once.
    """
    module_name, _, name = fault.method.partition(":")
    class_name, _, method = name.partition(".")
    module = import_module(module_name)
    source = Path(module.__file__).read_text(encoding="utf-8")
    if source.count(fault.old) != 1:
        raise ExerciseError(
            f"The lines of a fault must be in {module_name} exactly once: change the recipe with"
            f" {fault.old!r}."
        )
    loader = _Changed(module.__file__, source.replace(fault.old, fault.new))
    changed = module_from_spec(spec_from_loader(f"{module_name} with a fault", loader))
    loader.exec_module(changed)
    owner = getattr(module, class_name)
    original = getattr(owner, method)
    setattr(owner, method, getattr(getattr(changed, class_name), method))
    try:
        yield
    finally:
        setattr(owner, method, original)


def main(names: list[str]) -> None:
    for one in [find_exercise(name) for name in names] if names else exercises():
        if one.is_hunt:
            record(read_recipe(one), one.recording)
            print(one.recording)


if __name__ == "__main__":
    main(sys.argv[1:])
