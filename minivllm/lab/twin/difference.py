"""`first_difference`: the first step that two recordings of one trace plan differently, and why.

Each step of a recording becomes a few facts, such as the plan and the blocks that it took. Some
differences are intended: each has an id, the decision that explains it, and a test for its cause.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.text import plural, short_name

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
class Intended:
    id: str
    decision: int
    sentence: str


FULL_HIT = Intended(
    "full-hit", 18,
    "All blocks of this prompt are cached. vLLM computes at least one token of a prompt and finds"
    " only whole blocks, so it computes the last block again. minivllm finds all blocks and"
    " computes one token.",
)  # fmt: skip

LATE_HASHES = Intended(
    "late-hashes", 3,
    "With priorities, vLLM can preempt a request that it has planned in the same step. The blocks"
    " that this request was to fill are already in vLLM's prefix cache, although nothing is written"
    " into them. minivllm registers a block after the last preemption of the step.",
)  # fmt: skip
GOES_ON = Intended(
    "goes-on", 3,
    "With priorities, a request can preempt itself. vLLM then plans nothing more in this step,"
    " minivllm goes on with the other running requests.",
)  # fmt: skip
_CACHE_FACTS = {
    "admitted", "allocated", "hit", "evicted", "freed at the head", "freed at the tail",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Divergence:
    step: int
    fact: str
    ours: list[Any]
    theirs: list[Any]
    intended: Intended | None

    def __str__(self) -> str:
        own, other = (", ".join(map(_told, side)) or "none" for side in (self.ours, self.theirs))
        why = (
            f"Intended ({self.intended.id}, decision {self.intended.decision}):"
            f" {self.intended.sentence}"
            if self.intended
            else "No intended difference explains this."
        )
        return f"Step {self.step}: {FACTS[self.fact]}.\n  minivllm: {own}\n  vLLM: {other}\n{why}"


def _told(fact: Any) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def read_steps(path: Path) -> dict[int, Facts]:
    """The facts of each step. Besides `FACTS`: who is `withdrawn`, and why a lookup has `missed`."""
    recording = Recording(path)
    first, steps = recording.header.reserved_blocks, defaultdict(lambda: defaultdict(list))
    for event in recording.events(0, len(recording)):
        facts, name = steps[event.step], short_name(getattr(event, "seq_id", "") or "")
        match event:
            case ev.StepScheduled():
                start, end = event.num_computed_tokens, event.num_computed_tokens + event.num_tokens
                facts["scheduled"].append((name, start, end))
            case ev.StepWithdrawn():
                facts["scheduled"] = [share for share in facts["scheduled"] if share[0] != name]
                facts["withdrawn"].append(name)
            case ev.RequestAdmitted() | ev.RequestResumed():
                facts["admitted"].append((name, event.num_cached_tokens))
            case ev.RequestPreempted():
                facts["preempted"].append((name, short_name(event.victim_of)))
            case ev.RequestDeferred():
                facts["waits"].append((name, event.reason))
            case ev.BlockMissed():
                facts["missed"].append((name, event.why))
            case ev.BlockAllocated():
                facts["allocated"].append((name, event.block_id - first))
            case ev.BlockHit():
                facts["hit"].append((name, event.block_id - first))
            case ev.BlockEvicted():
                facts["evicted"].append(event.block_id - first)
            case ev.BlockFreed():
                # Only the order at each end of the queue counts: head and tail do not meet.
                facts[f"freed at the {event.position}"].append(event.block_id - first)
            case ev.TokenSampled():
                facts["sampled"].append((name, event.token_id))
            case ev.RequestFinished() | ev.RequestAborted():
                facts["ended"].append(name)
    recording.close()
    return steps


def differences(ours: Path, theirs: Path) -> list[Divergence]:
    """All facts that differ, in order. Those after the first can be its consequences."""
    own, other = read_steps(ours), read_steps(theirs)
    return [
        Divergence(
            step, fact, own[step][fact], other[step][fact], _intended(fact, own, other, step)
        )
        for step in sorted(own.keys() | other.keys())
        for fact in FACTS
        if own[step][fact] != other[step][fact]
    ]


def _intended(
    fact: str, own: dict[int, Facts], other: dict[int, Facts], step: int
) -> Intended | None:
    """The intended difference whose cause is in vLLM's recording."""
    ours, theirs = own[step], other[step]
    was_withdrawn = any(facts["withdrawn"] for at, facts in other.items() if at <= step)
    if was_withdrawn and fact in _CACHE_FACTS:
        return LATE_HASHES
    preempts_itself = any(victim == cause for victim, cause in theirs["preempted"])
    if fact == "scheduled" and preempts_itself and set(theirs[fact]) < set(ours[fact]):
        return GOES_ON
    full = {name for name, why in theirs["missed"] if why == "last_block_not_looked_up"}
    # Ours computes one token. If vLLM has no block or budget for its last block, it waits.
    full |= {name for name, end in ours["admitted"] if (name, end - 1, end) in ours["scheduled"]}
    pairs = zip_longest(ours["admitted"], theirs["admitted"])
    first = next((a or b for a, b in pairs if a != b), ("", 0))
    if fact == "admitted" and first[0] in full:
        return FULL_HIT
    return None


def summary(found: list[Divergence]) -> str:
    """How often each fact differs."""
    counts: dict[str, int] = defaultdict(int)
    for divergence in found:
        counts[divergence.fact] += 1
    return "\n".join(
        f"  {FACTS[fact]}: {plural(counts[fact], 'step')}" for fact in FACTS if counts[fact]
    )
