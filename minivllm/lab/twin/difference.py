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

    def __str__(self) -> str:
        return f"Intended ({self.id}, decision {self.decision}): {self.sentence}"


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
    " into them, so they are freed at the tail. minivllm registers a block after the last"
    " preemption of the step, so it frees them at the head.",
)  # fmt: skip
GOES_ON = Intended(
    "goes-on", 3,
    "With priorities, a request can preempt itself. vLLM then plans nothing more in this step,"
    " minivllm goes on with the other running requests.",
)  # fmt: skip
_HEAD, _TAIL = "freed at the head", "freed at the tail"


@dataclass(frozen=True, slots=True)
class Divergence:
    step: int
    fact: str
    ours: list[Any]
    theirs: list[Any]
    intended: Intended | None

    def __str__(self) -> str:
        own, other = (", ".join(map(_told, side)) or "none" for side in (self.ours, self.theirs))
        why = str(self.intended or "No intended difference explains this.")
        return f"Step {self.step}: {FACTS[self.fact]}.\n  minivllm: {own}\n  vLLM: {other}\n{why}"


def _told(fact: Any) -> str:
    return " ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def read_steps(path: Path) -> tuple[dict[int, Facts], int]:
    """The facts of each whole step, and the block size. Besides `FACTS`: who has `hashed` which
    block, and which of these are `late`, because their sequence was withdrawn in the same step.
    """
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
                facts["late"] += [block for owner, block in facts["hashed"] if owner == name]
            case ev.RequestAdmitted() | ev.RequestResumed():
                facts["admitted"].append((name, event.num_cached_tokens))
            case ev.RequestPreempted():
                facts["preempted"].append((name, short_name(event.victim_of)))
            case ev.RequestDeferred():
                facts["waits"].append((name, event.reason))
            case ev.BlockHashed() | ev.BlockAllocated() | ev.BlockHit():
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
    return {step: steps[step] for step in range(last + 1)}, recording.header.block_size


def differences(ours: Path, theirs: Path) -> list[Divergence]:
    """All facts that differ, in order. Those after the first can be its consequences."""
    (own, block_size), (other, _) = read_steps(ours), read_steps(theirs)
    return [
        Divergence(step, fact, a[fact], b[fact], intended(fact, a, b, block_size))
        for step, (a, b) in enumerate(zip(own.values(), other.values(), strict=False))
        for fact in FACTS
        if a[fact] != b[fact]
    ]


def intended(fact: str, ours: Facts, theirs: Facts, block_size: int) -> Intended | None:
    """The intended difference that a step shows. Of each list, only the first difference counts."""
    own, other = _first_pair(ours[fact], theirs[fact])
    if fact in ("allocated", "evicted", _HEAD, _TAIL):
        at_head, at_tail = (_first_pair(ours[end], theirs[end]) for end in (_HEAD, _TAIL))
        is_late = at_head[0] in theirs["late"] and at_tail[1] in theirs["late"]
        return LATE_HASHES if is_late else None
    if fact in ("preempted", "scheduled") and other is None:
        preempts_itself = any(victim == cause for victim, cause in theirs["preempted"])
        return GOES_ON if preempts_itself else None
    if fact == "admitted" and own is not None:
        name, end = own
        is_full = (name, end - 1, end) in ours["scheduled"]
        # If vLLM has no block for its last block, the request waits.
        waits = (name, "no_blocks") in theirs["waits"]
        return FULL_HIT if is_full and (waits or other == (name, end - block_size)) else None
    return None


def _first_pair(ones: list[Any], others: list[Any]) -> tuple[Any, Any]:
    """The first entries that differ; None for one that is missing."""
    return next((pair for pair in zip_longest(ones, others) if pair[0] != pair[1]), (None, None))


def summary(found: list[Divergence]) -> str:
    """How often each fact differs."""
    counts: dict[str, int] = defaultdict(int)
    for divergence in found:
        counts[divergence.fact] += 1
    return "\n".join(
        f"  {FACTS[fact]}: {plural(counts[fact], 'step')}" for fact in FACTS if counts[fact]
    )
