"""What is complete is held back as a whole."""

from minivllm.engine import stop_strings as engine

HINT = (
    "It was passed over and will not stop any more. Which of its characters may be part of the next"
    " one?"
)


class _Automaton(engine._Automaton):
    @property
    def num_undecided(self) -> int:
        return self.length
