"""Puts the pieces together, and leaves out those with which the engine does something else.

A trial with all pieces either gives the events of the engine's own code, or it does not. Then the
first of the pieces that makes the difference is found by bisection, named and left out:

    block-table, hash-chain, lru, preemption     differs
    block-table, hash-chain                      the same events
    block-table, hash-chain, lru                 differs, so it is lru
    block-table, hash-chain, preemption          the same events
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.capstone.finder import engine_file
from minivllm.lessons.checker.capstone.merge import OwnFile, clashes
from minivllm.lessons.checker.capstone.pieces import ON_A_GPU, Collection, LeftOut, OwnPiece
from minivllm.lessons.checker.capstone.trial import SECONDS, Settings
from minivllm.lessons.checker.child.sandbox import Child, Reply
from minivllm.lessons.checker.report import engines_at, yours_at
from minivllm.lessons.checker.search import Counterexample
from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP
from minivllm.text import clean

Play = Callable[[Sequence[OwnPiece]], Reply]
"""Runs the scenario with some pieces."""


def assemble(pieces: Sequence[OwnPiece], play: Play | None = None) -> Collection:
    """Find the pieces that run together as the engine does; say of the others what they change.

    Raises `ExerciseError` if no trial works on this machine.
    """
    kept, left_out = _without_clashes(pieces)
    play = play or _player(kept)
    with ThreadPoolExecutor(2) as both:
        own, together = both.map(play, [[], kept])
    if own.failure is not None:
        raise ExerciseError(
            f"The trial does not work here, not even with the engine's own code: {own.failure.text}"
        )
    while kept and (found := _difference(own, together)):
        culprit, found = _culprit(kept, own, found, play)
        kept.remove(culprit)
        left_out.append(LeftOut(culprit.name, _what_it_changes(found)))
        together = play(kept) if kept else own
    return Collection(kept, left_out)


def settings_for(pieces: Sequence[OwnPiece]) -> Settings:
    """The engine that runs these pieces."""
    options: dict[str, Any] = {}
    modules = {piece.exercise.module for piece in pieces}
    if any(module.startswith(ON_A_GPU) for module in modules):
        options["attention_backend"] = "triton:naive"
    if "minivllm.speculation.verify" in modules:
        options["speculative_config"] = dict(PROMPT_LOOKUP)
    return Settings(_by_module(pieces), options, "minivllm.structured_output.reference" in modules)


def _by_module(pieces: Sequence[OwnPiece]) -> dict[str, list[OwnFile]]:
    files: dict[str, list[OwnFile]] = {}
    for piece in pieces:
        files.setdefault(piece.exercise.module, []).append(piece.own_file)
    return files


def _without_clashes(pieces: Sequence[OwnPiece]) -> tuple[list[OwnPiece], list[LeftOut]]:
    dropped: dict[str, LeftOut] = {}
    for module, own_files in _by_module(pieces).items():
        for clash in clashes(engine_file(module), own_files):
            why = (
                f"it defines {clash.path} in another way than {clash.kept}, whose definition is"
                " used: rename yours in one of the two files"
            )
            dropped.setdefault(clash.dropped, LeftOut(clash.dropped, why))
    return [one for one in pieces if one.name not in dropped], list(dropped.values())


def _player(pieces: Sequence[OwnPiece]) -> Play:
    """Every trial has the options of all pieces, so that their events can be compared."""
    settings = settings_for(pieces)

    def play(some: Sequence[OwnPiece]) -> Reply:
        now = Settings(_by_module(some), settings.options, settings.plain_regexes)
        module = "minivllm.lessons.checker.capstone.trial"
        with Child(["-m", module, msgspec.json.encode(now).decode()], SECONDS) as child:
            return child.ask({})

    return play


def _culprit(
    pieces: Sequence[OwnPiece], own: Reply, found: Counterexample, play: Play
) -> tuple[OwnPiece, Counterexample]:
    """The piece that raises or loops; otherwise the first one with which the run differs."""
    if found.failure is not None and found.failure.file:
        return next(one for one in pieces if str(one.file) == found.failure.file), found
    least, most = 0, len(pieces)  # the first `least` pieces agree, the first `most` differ
    while most - least > 1:
        middle = (least + most) // 2
        difference = _difference(own, play(pieces[:middle]))
        if difference is None:
            least = middle
        else:
            most, found = middle, difference
    return pieces[most - 1], found


def _difference(own: Reply, together: Reply) -> Counterexample | None:
    expected, actual, failure = own.lines, together.lines, together.failure
    pairs = enumerate(zip(expected, actual, strict=False))
    index = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(actual)))
    if failure is None and index == len(expected) == len(actual):
        return None
    return Counterexample({}, expected, actual, index, failure)


def _what_it_changes(found: Counterexample) -> str:
    if found.failure is not None:
        return clean(found.failure.text).rstrip(".")
    return clean(f"the engine says {engines_at(found)}, and with your code {yours_at(found)}")
