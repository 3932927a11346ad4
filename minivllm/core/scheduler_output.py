"""`SchedulerOutput`: the plan of one step, handed from the scheduler to the model runner.

vLLM sends plans between processes, so it sends copies and differences; ours stay in one process and
refer to the sequences themselves. The contract: whoever executes a plan reads the sequences and
changes nothing, and the plan is dead once the next one is made.

Source: vLLM `vllm/v1/core/sched/output.py`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from minivllm.core.request import Sequence
from minivllm.events.types import ScheduledKind


class BlockCopy(NamedTuple):
    """All keys and values of block `src` go to block `dst`."""

    src: int
    dst: int


@dataclass(slots=True)
class ScheduledSequence:
    """Tokens [start, start + num_tokens) of one sequence go through the model in this step."""

    sequence: Sequence
    start: int
    """The sequence's `num_computed_tokens` before this step."""
    num_tokens: int
    starts_fresh: bool = False
    """Admitted or resumed in this step: whatever was remembered about its batch slot is stale."""

    kind: ScheduledKind = "prefill"
    """What views call it, and how the kernel tracer finds decodes; no plan and no token depends on
    it.
    """

    sampling: list[Sequence] = field(default_factory=list)
    """Who gets a token by it. Nobody, where the chunk stops before the last known token; the
    sequence itself; or, at the end of a prompt with several samples, the sequence and those just
    forked from it."""


@dataclass(slots=True)
class SchedulerOutput:
    """One step: which sequences get how many tokens. Running sequences come first, then admitted
    ones.
    """

    step: int
    budget: int
    """Tokens that it could give out."""
    scheduled: list[ScheduledSequence] = field(default_factory=list)
    total_num_scheduled_tokens: int = 0
    preempted: list[Sequence] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    """Block copies to be made before the step writes anything; all sources are read before any
    block is copied to.
    """

    def sampling_sequences(self) -> list[Sequence]:
        """The sequences that get a token by this step, in plan order: a row of logits for each."""
        return [sequence for item in self.scheduled for sequence in item.sampling]

    def withdraw(self, sequence: Sequence) -> int:
        """Take a sequence out of the plan; returns the tokens that it had been given."""
        for index, item in enumerate(self.scheduled):
            if item.sequence is sequence:
                del self.scheduled[index]
                return item.num_tokens
        return 0
