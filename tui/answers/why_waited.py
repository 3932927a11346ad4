"""Why a sequence has waited, asked when it runs or has ended. The player does not answer this."""

from collections import Counter

from minivllm.events.types import PASSED_REASONS
from minivllm.text import plural, short_name
from minivllm.tui.answers.why_sequences import list_names
from minivllm.tui.state.decisions import deferral, whose_need
from minivllm.tui.state.model import DashboardModel

_OPTIONS = {
    "no_blocks": " More blocks: --num-gpu-blocks-override.",
    "preempted_this_step": " More blocks: --num-gpu-blocks-override.",
    "max_num_seqs": " More slots: --max-num-seqs.",
    "token_budget": " More budget: --max-num-batched-tokens.",
}


def with_wait(model: DashboardModel, seq_id: str, said: str) -> str:
    """Add to the answer about a sequence why it has waited, and the option that changes this."""
    record, fold = model.ledger.sequences.get(seq_id), model.fold
    if seq_id in fold.waiting:
        deferred = fold.sequences[fold.waiting[model.considered()]].deferred
        owns_all = fold.sequences[seq_id].slot is not None
        return said + (_OPTIONS.get(deferred[0], "") if deferred and not owns_all else "")
    untils = [*record.phases[1:], record.end or fold] if record else []
    pairs = zip(record.phases if record else [], untils, strict=True)
    waits = [pair for pair in pairs if pair[0].phase in ("queued", "preempted")]
    num_steps = sum(until.step - start.step for start, until in waits)
    if num_steps <= 1:  # the step after its arrival admitted it
        return said
    seconds = sum(until.t - start.t for start, until in waits)
    time = f", {model.pace.words(seconds)}" if model.pace.is_timed else ""
    steps = [(start.step, until.step) for start, until in waits]
    causes, reason = causes_of_wait(model, seq_id, steps)
    waited = f" waited {plural(num_steps, 'step')}{time}{causes}"
    if (last := record.preemption) is not None:
        number = record.num_preemptions
        times = f"{number:,} times, the last time" if number > 1 else "once"
        waited += f"{';' if causes else ':'} preempted {times} because {whose_need(last)}"
        reason = reason or ("no_blocks" if last.need > last.free else "")
    if record.end is None:
        return f"{said} It{waited}."
    name = short_name(seq_id)
    return f"{name}{waited}. It{said.removeprefix(name)}{_OPTIONS.get(reason, '')}"


def causes_of_wait(
    model: DashboardModel, seq_id: str, waits: list[tuple[int, int]]
) -> tuple[str, str | None]:
    """`: all 4 slots taken, then behind ada (...)` for these waits, and the reason of most steps.

    waits: of each, the step before it and the step that ends it
    """
    causes, reasons, ahead, longest_ahead = {}, Counter(), {}, (0, "")
    total = sum(until - after for after, until in waits)
    for deferred, last in model.steps.waits:
        num_steps = sum(
            max(min(last + 1, until) - max(deferred.step, after + 1), 0) for after, until in waits
        )
        is_own = deferred.seq_id == seq_id
        if num_steps == 0 or (deferred.reason in PASSED_REASONS and not is_own):
            continue
        words = deferral(deferred.reason, deferred.need, deferred.free, model.max_num_seqs)
        reasons[deferred.reason] += num_steps
        if not is_own:
            ahead[deferred.seq_id] = None
            longest_ahead = max(longest_ahead, (num_steps, words))
            causes["behind"] = f"behind {list_names(ahead)} ({longest_ahead[1]})"
        elif 10 * num_steps >= total:  # leave out what took only a step or two
            causes[deferred.reason] = words
    most = max(reasons, key=reasons.__getitem__, default=None)
    return f": {', then '.join(causes.values())}" if causes else "", most
