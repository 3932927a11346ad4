"""A complete stop string is held back as a whole."""

from minivllm.engine import stop_strings as engine

HINT = (
    "It was ignored and cannot stop the text any more. Which of its characters may belong to the"
    " next match?"
)


class _Automaton(engine._Automaton):
    @property
    def num_undecided(self) -> int:
        return self.length
