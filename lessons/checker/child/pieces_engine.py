"""The child process of `pieces`: runs the capstone's scenario on an engine made of a student's files.

    python -m minivllm.lessons.checker.child.pieces_engine FOLDER NAME...

This file imports no part of the engine at its top, because that would be there before the pieces.
"""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.child.student import TimeIsUpError
from minivllm.lessons.checker.child.worker import limit_forks, send, take_limits

if TYPE_CHECKING:
    from minivllm.lessons.scenarios.scenario import Scenario

MEMORY_MB = 6000
SECONDS = 10.0
"""Processor time of a run; the engine's own code takes one or two seconds. Imports get twice that.
"""
MAX_STEPS = 1000


class Pieces:
    """Finds a module in the folder, whoever imports it first."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """names: the exercises whose pieces are wanted, for the engine's options"""
        self.folder, self.names = folder, names

    def install(self) -> None:
        """Use the pieces in this process. Call this before any part of the engine is imported."""
        late = [file.stem for file in self.folder.iterdir() if file.stem in sys.modules]
        if late:
            raise ExerciseError(f"{late[0]} is already imported: pieces need a fresh process.")
        sys.meta_path.insert(0, self)
        if "token-mask" in self.names:
            from minivllm.lessons.checker.child.matcher import use_plain_regexes

            use_plain_regexes()

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        file = self.folder / f"{name}.py"
        return spec_from_file_location(name, file) if file.exists() else None

    def scenario(self, watch: str) -> "Scenario":
        from minivllm.lessons.scenarios.capstone import capstone
        from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP

        drafts = {"speculative_config": dict(PROMPT_LOOKUP)}
        return capstone(watch, **(drafts if "verify-drafts" in self.names else {}))


def main(pieces: Pieces) -> None:
    answers, questions = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    take_limits(MEMORY_MB)
    limit_forks()
    lines: list[str] = []
    for seconds, run in ((2 * SECONDS, _load), (SECONDS, _play)):
        failure = None
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            run(pieces, lines)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            failure = {"kind": "raised", "text": describe(error, pieces.folder)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        send(answers, lines, failure)
        if failure is not None or not questions.readline():
            break
    os._exit(0)  # do not wait for threads of the student's code


def describe(error: BaseException, folder: Path) -> str:
    """What happened, and in which function of the pieces."""
    frames = traceback.extract_tb(error.__traceback__)
    own = next((one for one in reversed(frames) if Path(one.filename).parent == folder), None)
    where = f" in {own.name} of {Path(own.filename).stem}" if own else ""
    if isinstance(error, TimeIsUpError):
        return f"it took more than {SECONDS:g} seconds{where}, as an endless loop does"
    said = f": {error}"[:300] if str(error) else ""
    return f"{type(error).__name__}{where}{said}"


def _load(pieces: Pieces, lines: list[str]) -> None:
    pieces.install()
    import minivllm.engine.engine
    import minivllm.runtime.model_runner  # noqa: F401


def _play(pieces: Pieces, lines: list[str]) -> None:
    from minivllm.clock import VirtualClock
    from minivllm.config import EngineConfig
    from minivllm.engine.engine import LLMEngine
    from minivllm.events.recording.lines import encode_event
    from minivllm.lessons.scenarios.house import QUICK
    from minivllm.lessons.scenarios.player import ScenarioPlayer

    scenario = pieces.scenario("")
    config = EngineConfig(model="house", check_invariants=True, **{**QUICK, **scenario.options})
    engine = LLMEngine.from_config(config, clock=VirtualClock())
    engine.subscribe(lambda event: lines.append(encode_event(event).decode().rstrip()))
    player = ScenarioPlayer(scenario, engine)
    player.before_step()
    for _ in range(MAX_STEPS):
        if player.over:
            return
        engine.step()
        player.before_step()
    lines.append(f"still unfinished after {MAX_STEPS} steps")


if __name__ == "__main__":
    main(Pieces(Path(sys.argv[1]), sys.argv[2:]))
