"""Measurements of a lesson's run: when tokens were sampled, and how full the batch was.

The units are steps and tokens, because on the virtual clock all steps take equally long.
"""

from itertools import pairwise

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine


def token_steps(engine: LessonEngine, request_id: str) -> list[int]:
    return [
        event.step
        for event in engine.events_of(ev.TokenSampled)
        if event.seq_id == f"{request_id}.0"
    ]


def gaps(engine: LessonEngine, request_id: str) -> list[int]:
    steps = token_steps(engine, request_id)
    return [later - earlier for earlier, later in pairwise(steps)]


def num_drafted(engine: LessonEngine) -> int:
    return engine.fold.counters.spec_decode_num_draft_tokens


def num_accepted(engine: LessonEngine) -> int:
    return engine.fold.counters.spec_decode_num_accepted_tokens


def work_per_step(engine: LessonEngine) -> list[int]:
    return [event.used for event in engine.events_of(ev.StepEnd)]


def idle_slots_while_waiting(engine: LessonEngine) -> int:
    """The number of idle slots, summed over the steps in which a request was deferred."""
    slots, busy, idle, waits = engine.header.max_num_seqs, 0, 0, False
    for event in engine.events:
        match event:
            case ev.StepBegin():
                busy, waits = 0, False
            case ev.StepScheduled():
                busy += 1
            case ev.RequestDeferred():
                waits = True
            case ev.StepEnd() if waits:
                idle += slots - busy
    return idle


def steps_to_first_token(engine: LessonEngine, request_id: str) -> int:
    """Steps from arrival to first token: 1 if the very next step produced it."""
    return token_steps(engine, request_id)[0] - engine.facts.requests[request_id].arrived_after_step
