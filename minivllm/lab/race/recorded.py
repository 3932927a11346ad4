"""`read_recorded_run`: the requests of a recording with the tokens that they got.

Arrivals are in seconds of work: the time that the engine's earlier steps took. Pauses between
steps, as in a slowed demo or while a user types, are left out.

A recording with a virtual clock has no times of steps. Then the default step times of `simulate`
replace them.
"""

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.recording import Recording
from minivllm.lab.bench.step.points import StepPoint
from minivllm.lab.race.recorded_run import RecordedRequest, RecordedRun
from minivllm.lab.simulate.fit import fit_step_times
from minivllm.lab.simulate.step_time_model import Fit
from minivllm.lab.simulate.step_times import read_step_times
from minivllm.text import plural, short_name

_ENDS = (ev.RequestFinished, ev.RequestAborted, ev.BeamPruned)
_MOST_NAMES = 3


@dataclass(slots=True)
class _Reader:
    """Collects from events what a rerun needs."""

    fold: Fold
    arrived: dict[str, tuple[int, list[int], str | None, int, int]] = field(default_factory=dict)
    """Request id -> finished steps before it, prompt ids, prompt, number of samples, priority."""
    outputs: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))
    """Request id -> sequence id -> tokens, the sequence that ended last at the end."""
    points: list[StepPoint] = field(default_factory=list)

    def note_requests_of_state(self) -> None:
        """A recording that begins in the middle of a run has requests in its first state."""
        for request_id, request in self.fold.requests.items():
            prompt = list(request.prompt_token_ids)
            count = len(request.seq_ids)
            self.arrived[request_id] = 0, prompt, request.prompt, count, request.priority

    def apply(self, event: ev.Event) -> None:
        fold = self.fold
        match event:
            case ev.RequestArrived():
                beams = event.sampling.beam_width if event.sampling is not None else None
                self.arrived[event.request_id] = (
                    len(self.points),
                    event.prompt_token_ids,
                    event.prompt,
                    beams or event.n,
                    event.priority,
                )
            case ev.StepEnd() if event.used:
                prefills = [one for one in fold.scheduled if one.kind == "prefill"]
                self.points.append(
                    StepPoint(
                        event.used,
                        len(fold.scheduled) - len(prefills),
                        sum(one.num_tokens for one in prefills),
                        sum(one.num_computed_tokens for one in fold.scheduled),
                        event.t_schedule + event.t_prepare + event.t_model + event.t_sample,
                    )
                )
            case _ if isinstance(event, _ENDS):
                self._keep(event.seq_id)
        fold.apply(event)

    def keep_unfinished(self) -> None:
        """Keep the tokens so far of requests that have not ended."""
        for seq_id in self.fold.sequences:
            self._keep(seq_id)

    def _keep(self, seq_id: str) -> None:
        sequence = self.fold.sequences[seq_id]
        if len(sequence.output_token_ids):
            self.outputs[sequence.request_id][seq_id] = list(sequence.output_token_ids)


def read_recorded_run(path: Path) -> RecordedRun:
    """Read a whole recording. Raises `SimulationError` if none of its requests got a token."""
    recording = Recording(path)
    reader = _Reader(recording.view_at_event(0))
    reader.note_requests_of_state()
    for event in recording.events(0, len(recording)):
        reader.apply(event)
    reader.keep_unfinished()
    header, fold = recording.header, reader.fold
    recording.close()
    kept = {name: one for name, one in reader.arrived.items() if reader.outputs.get(name)}
    if not kept:
        raise SimulationError(
            "No request of this recording has got a token yet, so there is nothing to race."
        )
    notes = []
    if unfinished := [name for name in kept if name in fold.requests]:
        notes.append(f"Unfinished, raced with the tokens so far: {_names(unfinished)}.")
    if missing := [name for name in reader.arrived if name not in kept]:
        notes.append(f"Left out, without a token: {_names(missing)}.")
    step_times, seconds = _step_times(reader.points, notes)
    work = [0.0, *accumulate(seconds)]
    began = min(work[one[0]] for one in kept.values())
    requests = [
        RecordedRequest(
            name,
            prompt,
            text,
            list(reader.outputs[name].values())[-num_samples:],
            work[num_steps] - began,
            priority if header.scheduling_policy == "priority" else 0,
        )
        for name, (num_steps, prompt, text, num_samples, priority) in kept.items()
    ]
    return RecordedRun(header, requests, dict(fold.token_pieces), step_times, notes)


def _names(request_ids: list[str]) -> str:
    """The names of a few requests, or how many there are."""
    if len(request_ids) > _MOST_NAMES:
        return plural(len(request_ids), "request")
    return ", ".join(map(short_name, request_ids))


def _step_times(points: list[StepPoint], notes: list[str]) -> tuple[Fit, list[float]]:
    """A fit to the recording's own steps, and the seconds of each step.

    Too few steps scale the default fit instead.
    """
    default = read_step_times(None)
    fit = fit_step_times(default.points)
    model = fit.model(max(point.num_scheduled_tokens for point in points))
    expected = [
        model.seconds(one.num_scheduled_tokens, one.num_decodes, one.num_context_tokens)
        for one in points
    ]
    if not all(point.seconds > 0 for point in points):
        notes.append(f"No step times are recorded: these are {default.label.split(',')[0]}'s.")
        return fit, expected
    measured = [point.seconds for point in points]
    notes.append("Tokens and step times are the recording's.")
    try:
        return fit_step_times(points), measured
    except SimulationError:
        scale = sum(measured) / sum(expected)
        scaled = tuple(scale * one for one in fit.coefficients)
        return dataclasses.replace(fit, coefficients=scaled), measured
