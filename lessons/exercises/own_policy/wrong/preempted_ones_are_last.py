"""A preempted sequence has had its turn, so it waits behind all others."""

from minivllm.lessons.exercises.own_policy import policy as engine

HINT = (
    "Requests keep coming, so there is always somebody before it: when does it get its turn again?"
    " Half of its answer is on a user's screen already."
)


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence):
        first, *rest = engine.OwnPolicy.key(sequence)
        return first + 10**6 * (sequence.num_preemptions > 0), *rest
