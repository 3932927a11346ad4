"""`RecordedRun`: the requests of a recording with the tokens that they got, for another run."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from minivllm.events.types import LogHeader
from minivllm.lab.simulate.step_time_model import Fit


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    request_id: str
    prompt_token_ids: list[int]
    prompt: str | None
    outputs: list[list[int]]
    """The tokens of each sample. A beam search counts as one sample for each of its last beams."""
    at: float
    """Arrival in seconds of work after the first request."""
    priority: int = 0

    def split(self) -> Iterator["RecordedRequest"]:
        """Yield a request for each sample, for memory that cannot share a prompt's blocks."""
        for number, output in enumerate(self.outputs, start=1):
            name = f"{self.request_id}-{number}" if len(self.outputs) > 1 else self.request_id
            yield dataclasses.replace(self, request_id=name, outputs=[output])


@dataclass(frozen=True, slots=True)
class RecordedRun:
    header: LogHeader
    requests: list[RecordedRequest]
    pieces: dict[int, str]
    """Text of each token id."""
    step_times: Fit
    notes: list[str]
    """Sentences on where times come from, and on what is not as in the recording."""
