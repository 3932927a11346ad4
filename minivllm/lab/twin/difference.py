"""`differences`: the first decision that differs in two recordings of one trace, and why.

Each step of a recording becomes a few facts, such as the plan and the blocks that it took. If a
rule of vLLM explains the first difference, minivllm runs the trace again and follows that rule. So
the next difference is found, too.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.lab.twin.ours import run_ours
from minivllm.lab.twin.rules import RULES, Intended
from minivllm.lab.twin.trace import TwinTrace
from minivllm.text import short_name

Facts = dict[str, list[Any]]
FACTS = {
    "preempted": "who is preempted, and for whom",
    "admitted": "who is admitted, with how many cached tokens",
    "scheduled": "the plan: who computes how many tokens",
    "waits": "why the first waiting request waits",
    "allocated": "the blocks that are taken",
    "hit": "the cached blocks that are found",
    "evicted": "the blocks that lose their content",
    "freed at the head": "the empty blocks that are freed",
    "freed at the tail": "the cached blocks that are freed",
    "sampled": "the tokens",
    "ended": "who ends",
}
"""In the order of a step's decisions: the first fact that differs is the cause of the others."""


@dataclass(frozen=True, slots=True)
class Divergence:
    step: int
    fact: str
    ours: list[Any]
    theirs: list[Any]
    intended: Intended | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """The step, the fact and the entry of its list that differs first."""
        pairs = enumerate(zip_longest(self.ours, self.theirs))
        at = next(at for at, (own, other) in pairs if own != other)
        return self.step, [*FACTS].index(self.fact), at

    def __str__(self) -> str:
        own, other = (", ".join(map(_told, side)) or "none" for side in (self.ours, self.theirs))
        why = str(self.intended or "No intended difference explains this.")
        return f"Step {self.step}: {FACTS[self.fact]}.\n  minivllm: {own}\n  vLLM: {other}\n{why}"


def _told(fact: Any) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def read_steps(path: Path) -> list[Facts]:
    """The facts of each whole step."""
    recording = Recording(path)
    first, last, steps = recording.header.reserved_blocks, 0, defaultdict(lambda: defaultdict(list))
    for event in recording.events(0, len(recording)):
        facts, name = steps[event.step], short_name(getattr(event, "seq_id", "") or "")
        match event:
            case ev.StepScheduled():
                start, end = event.num_computed_tokens, event.num_computed_tokens + event.num_tokens
                facts["scheduled"].append((name, start, end))
            case ev.StepWithdrawn():
                facts["scheduled"] = [share for share in facts["scheduled"] if share[0] != name]
            case ev.RequestAdmitted() | ev.RequestResumed():
                facts["admitted"].append((name, event.num_cached_tokens))
            case ev.RequestPreempted():
                facts["preempted"].append((name, short_name(event.victim_of)))
            case ev.RequestDeferred():
                facts["waits"].append((name, event.reason))
            case ev.BlockAllocated() | ev.BlockHit():
                what = event.__struct_config__.tag.removeprefix("block.")
                facts[what].append((name, event.block_id - first))
            case ev.BlockEvicted():
                facts["evicted"].append(event.block_id - first)
            case ev.BlockFreed():
                # Only the order at each end of the queue counts: head and tail do not meet.
                facts[f"freed at the {event.position}"].append(event.block_id - first)
            case ev.TokenSampled():
                facts["sampled"].append((name, event.token_id))
            case ev.RequestFinished() | ev.RequestAborted():
                facts["ended"].append(name)
            case ev.StepEnd():
                last = event.step
    recording.close()
    return [steps[step] for step in range(last + 1)]


def first_difference(ours: list[Facts], theirs: list[Facts]) -> Divergence | None:
    for step, (own, other) in enumerate(zip(ours, theirs, strict=False)):
        for fact in FACTS:
            if own[fact] != other[fact]:
                return Divergence(step, fact, own[fact], other[fact])
    return None


def differences(trace: TwinTrace, theirs: Path) -> Iterator[Divergence]:
    """The first difference, then the first that is left when minivllm follows vLLM's rule for it,
    and so on. They end when all decisions are equal, or with one that no rule explains.
    """
    vllms, followed = read_steps(theirs), []
    found = _first_left(trace, vllms, followed)
    while found is not None:
        for rule in [rule for rule in RULES if rule not in followed]:
            rest = _first_left(trace, vllms, [*followed, rule])
            if rest is None or rest.place > found.place:
                break
        else:
            yield found
            return
        yield replace(found, intended=rule)
        found, followed = rest, [*followed, rule]


def _first_left(
    trace: TwinTrace, vllms: list[Facts], followed: list[Intended]
) -> Divergence | None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "ours.jsonl")
        run_ours(trace, path, followed)
        return first_difference(read_steps(path), vllms)
