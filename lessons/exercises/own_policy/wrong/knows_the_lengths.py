"""The policy may find out how long each answer will be, and serve the shortest first."""

import sys

from minivllm.lessons.exercises.own_policy import policy as engine

HINT = (
    "A server does not know the length of an answer before its end. With other lengths, your policy"
    " decides otherwise although nothing has happened yet that it could know."
)


def _lengths():
    frame = sys._getframe()
    while frame is not None and "lengths" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["lengths"] if frame is not None else {}


class OwnPolicy(engine.OwnPolicy):
    @staticmethod
    def key(sequence):
        request = sequence.request
        places = 26 * request.priority + _lengths().get(request.request_id, 0) / 4
        return request.arrival_number + places, request.arrival_number, sequence.index
