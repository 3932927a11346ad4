"""Events of requests and their sequences, from arrival to end."""

from dataclasses import asdict
from typing import Any, ClassVar, Literal

import msgspec

from minivllm.events.types.envelope import Event

DeferReason = Literal[
    "no_blocks",
    "token_budget",
    "max_num_seqs",
    "preempted_this_step",
    "grammar_not_compiled",
    "waiting_for_remote_kvs",
    # Only the baselines defer for the reasons below.
    "no_contiguous_run",
    "static_batch",
    "batch_delay",
    # Only a real vLLM defers for the reasons below.
    "stale_output",
    "lora",
    "paused",
    "throttled",
    "other",
]
PASSED_REASONS = frozenset(
    {"grammar_not_compiled", "waiting_for_remote_kvs", "stale_output", "lora"}
)
"""A sequence that waits for one of these does not keep the sequences behind it waiting."""


class RequestSampling(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a request is sampled and when it stops: names and defaults of `SamplingParams`."""

    best_of: int | None = None
    use_beam_search: bool = False
    beam_width: int | None = None
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    stop: list[str] = []
    stop_token_ids: list[int] = []
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    structured_outputs: dict[str, Any] | None = None

    @classmethod
    def of(cls, params: object) -> "RequestSampling":
        """Copy from a `SamplingParams` what is not a default, so that JSON leaves out the rest.

        params: ours, or vLLM's, which has no beams
        """
        defaults = cls()
        names = cls.__struct_fields__
        given = {name: getattr(params, name, getattr(defaults, name)) for name in names}
        given = {name: value for name, value in given.items() if value != getattr(defaults, name)}
        if "structured_outputs" in given:
            form = asdict(given["structured_outputs"])
            given["structured_outputs"] = {
                name: value for name, value in form.items() if value and name[0] != "_"
            }
        if "stop" in given:
            # A caller can send half of a surrogate pair, which JSON cannot encode.
            given["stop"] = [text.encode("utf-8", "replace").decode() for text in given["stop"]]
        # Convert whole numbers to float where the field is one: live events equal decoded ones.
        return msgspec.convert(given, cls)


class RequestArrived(Event, tag="request.arrived"):
    """A request was queued. Its first sequence is at `position` in the waiting queue."""

    request_id: str
    seq_id: str
    position: int
    prompt_token_ids: list[int]
    """The tokens that the model gets, including those that chat template and tokenizer add."""
    max_tokens: int
    """Maximum number of output tokens of each sequence."""
    priority: int = 0
    """Lower is first, if the scheduling policy is `priority`."""
    prompt: str | None = None
    """Text of the prompt; None if only token ids were given."""
    n: int = 1
    """Number of answers wanted."""
    sampling: RequestSampling | None = None
    """Sampling parameters; those with default values are left out. None in recordings of older
    versions.
    """
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.add_request"


class RequestAdmitted(Event, tag="request.admitted"):
    """A waiting sequence got a batch slot. Earlier events show its prefix hits and new blocks."""

    seq_id: str
    slot: int
    num_cached_tokens: int
    """Tokens found in the prefix cache."""
    num_computed_tokens: int
    """Start of the first chunk: after the cached tokens, or at the last token if all are cached."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestResumed(Event, tag="request.resumed"):
    """A preempted sequence got a slot again and recomputes what the prefix cache no longer has.

    The fields mean the same as in `request.admitted`.
    """

    seq_id: str
    slot: int
    num_cached_tokens: int
    num_computed_tokens: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._admit"


class RequestDeferred(Event, tag="request.deferred"):
    """The first waiting sequence was not admitted in this step. The sequences behind it wait, too.

    `need` and `free` count blocks, tokens or batch slots, according to `reason`.
    `no_contiguous_run`: `free` is the longest run of neighbouring free blocks. `static_batch`:
    `need` sequences must end first. `batch_delay`: the engine waits until there are `need`
    sequences; `free` sequences have arrived. `grammar_not_compiled`: both are 0. It is emitted at
    arrival, and the sequences behind it do not wait. `waiting_for_remote_kvs`: neither do they here;
    `need` blocks are being loaded, see `kv.load`. The last five are vLLM's: a preempted sequence
    waits for tokens of a step that still runs, all adapters of the step are in use, the scheduler
    is paused, another replica's prompts come first, or the recorder does not know.
    """

    seq_id: str
    reason: DeferReason
    """What was missing."""
    need: int
    """How much the sequence needs."""
    free: int
    """How much was free."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._defer"


class RequestPreempted(Event, tag="request.preempted"):
    """A running sequence lost its blocks and slot to `victim_of` and waits at `position`."""

    seq_id: str
    victim_of: str
    """The sequence for which room was made."""
    need: int
    """How many blocks `victim_of` needed. If at least this many were free, `victim_of` needed a
    batch slot. 0: `victim_of` failed before it wrote a shared block.
    -1: nobody needed room; vLLM's prefix cache was reset."""
    free: int
    """How many blocks were free."""
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler._preempt"


class RequestForked(Event, tag="request.forked"):
    """A running sequence was forked. The new one has the same tokens and shares all blocks.

    The new sequence has batch slot `slot` and is at `position` in the list of running sequences.
    """

    seq_id: str
    """The new sequence."""
    parent: str
    """The sequence that was forked."""
    slot: int
    position: int
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.fork"


class RequestFinished(Event, tag="request.finished"):
    """A sequence finished. The events just before have released its blocks."""

    seq_id: str
    reason: Literal["stop", "length"]
    """`length`: the sequence reached `max_tokens` or the greatest context length."""
    stop_reason: int | str | None = None
    """The stop token id or the stop string; None for end-of-sequence and for `length`."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamPruned(Event, tag="request.beam_pruned"):
    """A beam ended, because none of its candidates continues it: others were better, or its best
    candidate ended its text.

    The events just before have released the beam's blocks.
    """

    seq_id: str
    stop_reason: int | None = None
    """The token that ended its text, which is one of the best texts so far; else None."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"


class BeamsFound(Event, tag="request.beams_found"):
    """A beam search is over. The best texts that it found are the output of the request.

    Right after this event the beams end, `seq_id` last. A text may have been finished long before,
    so `texts` can differ from the texts of the last beams.
    """

    seq_id: str
    texts: list[str]
    """The texts, best first."""
    logprobs: list[float]
    """Log-probability of each text, over all its tokens."""
    rule: ClassVar[str] = "minivllm.engine.beams:BeamDriver._finish"


class RequestAborted(Event, tag="request.aborted"):
    """A waiting or running sequence was ended by its caller or by an error."""

    seq_id: str
    error: str | None = None
    """What failed; None if the caller ended the sequence."""
    rule: ClassVar[str] = "minivllm.core.scheduler:Scheduler.finish"
