"""What a headless demo says: a line for each decision on the way, and a report at the end.

Made from events and the facts counted from them, in the dashboard's words. The easy thing to get wrong is
to say too much: blocks come and go by the dozen, so only what concerns a whole request is told, and a step in
which nothing of that kind happens is passed over, with a sign of life every two seconds.
"""

import shutil

from minivllm.cli.terminal import note
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.facts import RunFacts
from minivllm.lessons.scenarios import Scenario
from minivllm.lessons.stories import tell
from minivllm.tui.decisions import DecisionLog
from minivllm.tui.text import clean, fit, plural

SECONDS_WITHOUT_A_WORD = 2.0
_TOLD = (
    ev.RequestArrived,
    ev.RequestAdmitted,
    ev.RequestResumed,
    ev.RequestDeferred,
    ev.RequestPreempted,
    ev.RequestFinished,
    ev.RequestAborted,
    ev.InvariantViolated,
)


class ProgressLines:
    """A listener that writes lines to standard error. `fold` must have taken in each event before."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._log = DecisionLog()
        self._told_last = None
        self._spoke_at = fold.t

    def apply(self, event: ev.Event) -> None:
        """Tell the event, if it is worth it."""
        if isinstance(event, _TOLD):
            self._log.add(event, getattr(event, "seq_id", None), None)
            decision = self._log.decisions[-1]
            if decision is self._told_last:
                return  # it waits for the same reason as before
            self._told_last = decision
            words = "".join(text for text, _ in decision.spans())
            self._say(event, f"{decision.name:<6} {words}")
        elif isinstance(event, ev.StepEnd) and event.t - self._spoke_at >= SECONDS_WITHOUT_A_WORD:
            fold = self._fold
            self._say(
                event,
                f"       ... {len(fold.running)} running, {len(fold.waiting)} waiting, "
                f"{plural(len(fold.free_queue), 'block')} free, {plural(fold.counters.generation_tokens, 'token')} written",
            )

    def _say(self, event: ev.Event, words: str) -> None:
        note(f"step {event.step:>4}  {words}")
        self._spoke_at = event.t


def print_report(scenario: Scenario, facts: RunFacts) -> None:
    """The texts, the counts, and the three things that happened, on standard output."""
    fold, counters = facts.fold, facts.fold.counters
    total = len(scenario.arrivals)
    print(f"\n{scenario.name} on {clean(fold.header.model)}: {scenario.teaches}\n")
    width = shutil.get_terminal_size().columns
    name_width = max((len(request.name) for request in facts.requests.values()), default=0)
    for finished in fold.history:
        question = clean((finished.prompt or "").partition("\n")[0])
        print(fit(f"  {clean(finished.request_id):<{name_width}}  {question}", width).rstrip())
        print(fit(f"  {'':<{name_width}}  > {clean(finished.text.strip())}", width).rstrip())
    print(
        f"\n{counters.finished_requests} of {plural(total, 'request')} finished in {plural(fold.step, 'step')} and "
        f"{facts.seconds:.1f} s: {plural(counters.generation_tokens, 'token')}, {_tokens_per_s(facts):.1f} a second.\n"
        f"{plural(counters.num_preemptions, 'preemption')}, {plural(counters.prefix_cache_hits, 'prefix hit token')}, "
        f"{plural(counters.evicted_blocks, 'evicted block')}, {plural(counters.invariant_violations, 'invariant violation')}.\n"
    )
    if counters.finished_requests < total:
        print("The run was stopped before its end. Up to there:")
    for number, sentence in enumerate(tell(scenario, facts), start=1):
        print(f"  {number}. {sentence}")


def report_json(scenario: Scenario, facts: RunFacts) -> dict[str, object]:
    """The report for programs."""
    counters = facts.fold.counters
    return {
        "scenario": scenario.name,
        "model": facts.fold.header.model,
        "requests": len(scenario.arrivals),
        "finished_requests": counters.finished_requests,
        "aborted_requests": counters.aborted_requests,
        "preemptions": counters.num_preemptions,
        "prefix_hit_tokens": counters.prefix_cache_hits,
        "resumed_hit_tokens": counters.resumed_hit_tokens,
        "evicted_blocks": counters.evicted_blocks,
        "invariant_violations": counters.invariant_violations,
        "steps": facts.fold.step,
        "prompt_tokens": counters.prompt_tokens,
        "generated_tokens": counters.generation_tokens,
        "seconds": facts.seconds,
        "tokens_per_s": _tokens_per_s(facts),
        "what_happened": tell(scenario, facts),
    }


def _tokens_per_s(facts: RunFacts) -> float:
    return facts.fold.counters.generation_tokens / facts.seconds if facts.seconds else 0.0
