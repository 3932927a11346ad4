"""`Mistake`: a known wrong solution, as a small change of the engine's own file, in mistakes.toml:

    [[mistake]]
    name = "everything_at_the_tail"
    believes = "First freed, first reused."        as the student would say it
    hint = "While it waits at the tail, which block is evicted instead?"
    old = "self.free_queue.prepend(block)"         exactly once in the file
    new = "self.free_queue.append(block)"

In place of `old` and `new`, `adds` is code at the end of the file: `class BlockPool(BlockPool)`, say,
with other methods. In "find the bug" a mistake is an answer: `step` and `rule`.
"""

from typing import NamedTuple

from minivllm.errors import ExerciseError


class Mistake(NamedTuple):
    name: str
    believes: str
    hint: str = ""
    old: str = ""
    new: str = ""
    adds: str = ""
    step: int = 0
    rule: str = ""

    def source(self, source: str) -> str:
        """The engine's source with the mistake. Raises `ExerciseError` if it does not fit."""
        if self.adds:
            return f"{source}\n\n{self.adds}"
        return edited(source, self.old, self.new, self.name)


def edited(source: str, old: str, new: str, name: str) -> str:
    """Change `old`, which occurs once, to `new`. Raises `ExerciseError` if it does not fit."""
    if source.count(old) != 1:
        raise ExerciseError(f"{name}: {old!r} must be in the file once, not {source.count(old)}x.")
    return source.replace(old, new)
