"""`read_recorded_run`: the requests of a recording with the tokens that they got.

Arrivals are in seconds of work: the time that the engine's earlier steps took. Pauses between
steps, as in a slowed demo or while a user types, are left out.

The times of steps are the default ones of `simulate`, scaled to the recording's seconds, if it has
any. So who wins by how much depends on the requests, and only the seconds on the machine.
"""

import dataclasses
from collections import defaultdict
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.recording import Recording
from minivllm.events.state import RequestState
from minivllm.lab.bench.step.points import StepPoint
from minivllm.lab.race.rerun import RecordedRequest, RecordedRun
from minivllm.lab.simulate.fit import fit_step_times
from minivllm.lab.simulate.step_times import Fit, read_step_times
from minivllm.text import clean, plural, short_name

_ENDS = (ev.RequestFinished, ev.RequestAborted, ev.BeamPruned)
_MOST_NAMES = 3


class _Arrived(NamedTuple):
    num_steps: int  # finished before it
    num_samples: int
    request: RecordedRequest  # still without outputs


class _Reader:
    """Collects from events what a rerun needs."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.arrived: dict[str, _Arrived] = {}
        self.outputs: dict[str, dict[str, list[int]]] = defaultdict(dict)
        """Request id -> sequence id -> tokens, the sequence that ended last at the end."""
        self.points: list[StepPoint] = []
        self.ended = float("-inf")
        # A recording that begins in the middle of a run has requests in its first state.
        for name, request in fold.requests.items():
            self.arrive(name, request, len(request.seq_ids))

    def arrive(
        self, name: str, request: RequestState | ev.RequestArrived, num_samples: int
    ) -> None:
        prompt = list(request.prompt_token_ids), request.prompt
        recorded = RecordedRequest(name, *prompt, outputs=[], at=0.0, priority=request.priority)
        self.arrived[name] = _Arrived(len(self.points), num_samples, recorded)

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.RequestArrived():
                beams = event.sampling.beam_width if event.sampling is not None else None
                self.arrive(event.request_id, event, beams or event.n)
            case ev.StepEnd() if event.used:
                scheduled = self.fold.scheduled
                decodes = sum(item.kind == "decode" for item in scheduled)
                context = sum(item.num_computed_tokens for item in scheduled)
                seconds = event.t_schedule + event.t_prepare + event.t_model + event.t_sample
                # A vLLM that runs ahead begins a step before the last one has ended.
                seconds, self.ended = min(seconds, event.t - self.ended), event.t
                self.points.append(StepPoint(event.used, decodes, context, seconds))
            case _ if isinstance(event, _ENDS):
                self.keep(event.seq_id)
        self.fold.apply(event)

    def keep(self, seq_id: str) -> None:
        """Keep the tokens so far of a sequence."""
        sequence = self.fold.sequences[seq_id]
        if len(sequence.output_token_ids):
            self.outputs[sequence.request_id][seq_id] = list(sequence.output_token_ids)


def read_recorded_run(path: Path) -> RecordedRun:
    """Read a whole recording. Raises `SimulationError` if none of its requests got a token."""
    recording = Recording(path)
    reader = _Reader(recording.view_at_event(0))
    for event in recording.events(0, len(recording)):
        reader.apply(event)
    header, fold = recording.header, reader.fold
    recording.close()
    unknown, pieces = 1 + max(fold.token_pieces, default=0), dict(fold.token_pieces)
    room = min(header.max_model_len, header.num_usable_blocks * header.block_size)
    for seq_id, sequence in fold.sequences.items():  # they have not ended
        if output := list(sequence.output_token_ids):
            name = sequence.request_id
            most = min(fold.requests[name].max_tokens, room - sequence.num_prompt_tokens)
            rest = range(unknown, unknown + most - len(output))  # none twice: no draft is right
            reader.outputs[name][seq_id] = [*output, *rest]
            pieces.update(dict.fromkeys(rest, " …"))
    kept = {name: arrival for name, arrival in reader.arrived.items() if reader.outputs.get(name)}
    if not kept:
        raise SimulationError("No request of this recording has a token yet: nothing to race.")
    notes = ["Both sides write the recording's words. How long a step takes is an estimate."]
    if header.source:
        notes.append(f"Both sides have minivllm's scheduler, not that of {clean(header.source)}.")
    if unfinished := [name for name in kept if name in fold.requests]:
        notes.append(f"{_names(unfinished)} had not ended: the rest is in unknown words.")
    if missing := [name for name in reader.arrived if name not in kept]:
        notes.append(f"{_names(missing)} had no token yet: left out.")
    step_times, seconds = _step_times(reader.points)
    work = [0.0, *accumulate(seconds)]
    began = min(work[arrival.num_steps] for arrival in kept.values())
    requests = [
        dataclasses.replace(
            arrival.request,
            outputs=list(reader.outputs[name].values())[-arrival.num_samples :],
            at=work[arrival.num_steps] - began,
        )
        for name, arrival in kept.items()
    ]
    return RecordedRun(header, requests, pieces, step_times, notes)


def _names(request_ids: list[str]) -> str:
    """The names of a few requests, or how many there are."""
    if len(request_ids) > _MOST_NAMES:
        return plural(len(request_ids), "request")
    return ", ".join(map(short_name, request_ids))


def _step_times(points: list[StepPoint]) -> tuple[Fit, list[float]]:
    """The default fit, scaled so that all steps take as long as recorded; and seconds of each."""
    # A fit to the steps themselves has their noise: two runs of a demo won by 1.9 and 2.6 times.
    fit = fit_step_times(read_step_times(None).points)
    predict = fit.model(max(point.num_scheduled_tokens for point in points)).predict
    expected, scale = list(map(predict, points)), 1.0
    if all(point.seconds for point in points):
        scale = sum(point.seconds for point in points) / sum(expected)
    scaled = tuple(scale * value for value in fit.coefficients)
    return dataclasses.replace(fit, coefficients=scaled), [scale * value for value in expected]
