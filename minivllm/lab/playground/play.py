"""`play`: the original and the reader's run of the same requests, one after the other.

    question = {"run": ..., "arrivals": "arrival,prompt_tokens,...", "options": {"block_size": 8},
                "edit": {"module": ..., "name": ..., "text": ...}}

`run` is a `RecordedRun` as JSON. With `arrivals`, its requests are replaced. With
`"options_for_both": true`, the original runs with the reader's options.

The original has the recording's options and the engine's own code. The reader's side has other
options, another method, or both. A reader's mistake is one sentence, with the line of the editor.
"""

import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import convert

from minivllm.lab.playground.fresh import another_engine
from minivllm.lab.playground.limit import PlayTimeUpError, stop_after
from minivllm.lab.playground.methods import CoreMethod, EditError, find_method, module_with

SECONDS = 10.0
"""Time limit of the reader's side. The longest of our traces needs a tenth of it."""


ARRIVALS = "arrivals.csv"


class Mishap(NamedTuple):
    """Why the reader's side did not come to its end, in one sentence."""

    error: str
    line: int | None = None  # in the editor, from 1; None if the cause is elsewhere
    recording: str = ""  # the run up to there


def play(question: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run both sides. Returns `{"original": side, "yours": side}`; a side may be a `Mishap`.

    folder: for the reader's module and arrivals, and for the recordings
    """
    if arrivals := question.get("arrivals"):
        (folder / ARRIVALS).write_text(arrivals, encoding="utf-8")
    original = {**question, "edit": None}
    if not question.get("options_for_both"):
        original["options"] = {}
    sides = {"original": _try(original, None, "", folder / "original.jsonl")}
    return sides | {"yours": _yours(question, folder)}


def _yours(question: dict[str, Any], folder: Path) -> dict[str, Any]:
    edit = question.get("edit")
    if edit is None:
        return _try(question, None, "", folder / "yours.jsonl")
    try:
        method = find_method(edit["module"], edit["name"])
        text = module_with(method, edit["text"])
    except EditError as error:
        return Mishap(str(error), error.line)._asdict()
    # Absolute, as it appears in tracebacks.
    file = folder.absolute() / f"{method.module.rpartition('.')[2]}.py"
    file.write_text(text, encoding="utf-8")
    with another_engine():
        return _try(question, method, str(file), folder / "yours.jsonl")


def _try(
    question: dict[str, Any], method: CoreMethod | None, file: str, path: Path
) -> dict[str, Any]:
    path.unlink(missing_ok=True)
    try:
        with stop_after(SECONDS, file):
            if method is not None:
                imports = import_module("minivllm.lessons.checker.child.imports")
                imports.import_files({method.module: Path(file)})
            side = import_module("minivllm.lab.playground.side")  # the engine as it is now
            run = convert(question["run"], side.RecordedRun, strict=False)
            if question.get("arrivals"):
                run = side.run_of_arrivals(path.with_name(ARRIVALS), run)
            return side.play_side(run, question.get("options", {}), path, method is not None)
    except (Exception, PlayTimeUpError) as error:
        until = path.read_text(encoding="utf-8") if path.exists() else ""
        return _explained(error, method, file)._replace(recording=until)._asdict()


def _explained(error: BaseException, method: CoreMethod | None, file: str) -> Mishap:
    line = None if method is None else _line_in_editor(error, method, file)
    where = "" if line is None else f" in line {line} of your code"
    if isinstance(error, PlayTimeUpError):
        return Mishap(
            f"Your code took more than {SECONDS:g} seconds{where}: is there an endless loop?", line
        )
    # The engine was imported again, so its exceptions are known only by their names.
    kinds = {base.__name__ for base in type(error).__mro__}
    if kinds & {"ConfigError", "SimulationError", "BenchError", "InvalidRequestError"}:
        return Mishap(str(error))
    said = f": {error}".rstrip(".") if str(error) else ""
    if "InvariantError" in kinds:
        first = str(error).partition("; ")[0]
        return Mishap(f"Your change breaks a rule of the engine: {first}.", line)
    if method is None:
        return Mishap(f"The engine failed: {type(error).__name__}{said}.")
    if line is None:
        return Mishap(f"The engine fails after your change: {type(error).__name__}{said}.")
    return Mishap(f"{type(error).__name__}{where}{said}.", line)


def _line_in_editor(error: BaseException, method: CoreMethod, file: str) -> int | None:
    """The last line of the edited method in the traceback of `error` or of its causes."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        # Only the method was edited; what follows it has moved, but it is not in the editor.
        if frame.filename == file and frame.name == method.name.rpartition(".")[2]:
            return frame.lineno - method.first + 1
    cause = error.__cause__ or error.__context__
    return None if cause is None else _line_in_editor(cause, method, file)
