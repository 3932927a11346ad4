"""What lessons measure on a run: when tokens came, and how full the batch was.

Everything is counted from the events of a `LessonEngine`, in steps or in tokens of work, because on
the virtual clock all steps take equally long. The easy thing to get wrong is the last step: a slot
that has nobody to serve is no loss, so slots are counted as idle only while somebody has still to
come.
"""

from itertools import pairwise

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine


def token_steps(engine: LessonEngine, request_id: str) -> list[int]:
    """The steps in which a request's first sequence got its tokens."""
    return [
        event.step
        for event in engine.events_of(ev.TokenSampled)
        if event.seq_id == f"{request_id}.0"
    ]


def gaps(engine: LessonEngine, request_id: str) -> list[int]:
    """Steps between each token of a request and the one after it."""
    steps = token_steps(engine, request_id)
    return [later - earlier for earlier, later in pairwise(steps)]


def work_per_step(engine: LessonEngine) -> list[int]:
    """Tokens that went through the model, step by step."""
    return [event.used for event in engine.events_of(ev.StepEnd)]


def idle_slots_while_waiting(engine: LessonEngine) -> int:
    """Slots without work, summed over the steps in which somebody was kept waiting."""
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
    """From a request's arrival to its first token: 1 if it was served in the very next step."""
    return token_steps(engine, request_id)[0] - engine.facts.requests[request_id].arrived_after_step
