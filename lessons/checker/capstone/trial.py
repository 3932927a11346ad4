"""A child process that runs the capstone's scenario with some pieces, and reports all events.

The clock is virtual, so two runs with the same behaviour give the same lines. The parent compares
them with a run of the engine's own code, so a piece cannot change its own verdict.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from minivllm.lessons.checker.capstone.finder import install
from minivllm.lessons.checker.capstone.merge import OwnFile
from minivllm.lessons.checker.child.student import TimeIsUpError
from minivllm.lessons.checker.child.worker import limit_forks, take_limits

MEMORY_MB = 6000
SECONDS = 10.0
"""Processor time of a run; the engine's own code takes one or two seconds. Imports get twice that.
"""
MAX_STEPS = 1000


class Settings(msgspec.Struct):
    """What a trial and the demo run; sent as JSON."""

    files: dict[str, list[OwnFile]]
    """For each module of the engine, the files to merge into it."""
    options: dict[str, Any] = {}
    """Options of the engine, besides those of the scenario."""
    plain_regexes: bool = False

    def install(self) -> None:
        """Use the pieces in this process. Call this before any part of the engine is imported."""
        install(self.files)
        if self.plain_regexes:
            from minivllm.lessons.checker.capstone.matcher import use_plain_regexes

            use_plain_regexes()

    @property
    def own_files(self) -> list[OwnFile]:
        return [own for owns in self.files.values() for own in owns]


def main(argv: list[str]) -> None:
    """argv: the settings as JSON"""
    settings = msgspec.json.decode(argv[0], type=Settings)
    answers, questions = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    take_limits(MEMORY_MB)
    limit_forks()
    signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)
    lines: list[str] = []
    failure = None
    try:
        settings.install()
        import minivllm.engine.engine
        import minivllm.runtime.model_runner  # noqa: F401
    except BaseException as error:
        failure = describe(error, settings.own_files)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _send(answers, [], failure)
    if failure is None and questions.readline():
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            _play(settings.options, lines)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            failure = describe(error, settings.own_files)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(answers, lines, failure)
    os._exit(0)  # do not wait for threads of the student's code


def _send(answers: Any, lines: list[str], failure: dict[str, str] | None) -> None:
    answers.write(json.dumps({"lines": lines, "failure": failure}) + "\n")
    answers.flush()


def _play(options: Mapping[str, Any], lines: list[str]) -> None:
    from minivllm.clock import VirtualClock
    from minivllm.config import EngineConfig
    from minivllm.engine.engine import LLMEngine
    from minivllm.events.recording.lines import encode_event
    from minivllm.lessons.scenarios.capstone import capstone
    from minivllm.lessons.scenarios.house import QUICK
    from minivllm.lessons.scenarios.player import ScenarioPlayer

    scenario = capstone("", **options)
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


def describe(error: BaseException, own_files: list[OwnFile]) -> dict[str, str]:
    """The fields of a `Failure`: what happened, and in which of the files."""
    frames = traceback.extract_tb(error.__traceback__)
    files = {own.file for own in own_files}
    own = next((frame for frame in reversed(frames) if frame.filename in files), None)
    where = f" in line {own.lineno} of {Path(own.filename).name}, in {own.name}" if own else ""
    file = own.filename if own else ""
    if isinstance(error, TimeIsUpError):
        text = f"it took more than {SECONDS:g} seconds{where}: is there an endless loop?"
        return {"kind": "time", "text": text, "file": file}
    said = f": {error}"[:300] if str(error) else ""
    return {"kind": "raised", "text": f"{type(error).__name__}{where}{said}", "file": file}


if __name__ == "__main__":
    main(sys.argv[1:])
