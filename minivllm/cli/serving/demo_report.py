"""What a headless demo says: a line for each decision on the way, and a report at the end.

Made from events and the facts counted from them, in the dashboard's words. The easy thing to get
wrong is to say too much: blocks come and go by the dozen, so only what concerns a whole request is
told, and a step in which nothing of that kind happens is passed over, with a sign of life every two
seconds. A beam search forks at every step; it is told until its first beam has died, and from then
on it only counts.
"""

import shutil
import textwrap
from typing import TextIO

from minivllm.cli.terminal import note
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.scenarios.facts import RequestFacts, RunFacts
from minivllm.lessons.scenarios.scenarios import Scenario
from minivllm.lessons.scenarios.stories import tell
from minivllm.text import clean, fit, plural, tail
from minivllm.tui.state.decisions import DecisionLog

SECONDS_WITHOUT_A_WORD = 2.0
CUT_AT = 120
"""Characters of an answer that a report shows where there is no terminal."""
COMMON = 100
"""Characters, the last ones, of what all beams have in common."""
_TOLD = (
    ev.RequestArrived,
    ev.RequestAdmitted,
    ev.RequestResumed,
    ev.RequestDeferred,
    ev.RequestPreempted,
    ev.RequestForked,
    ev.BlockCopied,
    ev.BeamPruned,
    ev.RequestFinished,
    ev.RequestAborted,
    ev.InvariantViolated,
)


class ProgressLines:
    """A listener that writes lines to standard error. `fold` must have taken in each event
    before.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._log = DecisionLog()
        self._told_last = None
        self._searching: set[str] = set()
        """Requests of which a beam has died."""
        self._spoke_at = fold.t

    def apply(self, event: ev.Event) -> None:
        """Tell the event, if it is worth it."""
        if isinstance(event, _TOLD) and not self._is_everyday(event):
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
                f"       ... {len(fold.running)} running, {len(fold.waiting)} waiting,"
                f" {plural(len(fold.free_queue), 'block')} free,"
                f" {plural(fold.counters.generation_tokens, 'token')} written",
            )

    def _is_everyday(self, event: ev.Event) -> bool:
        """Whether the event is one of the many of a beam search that is in full swing."""
        if not isinstance(event, (ev.RequestForked, ev.BlockCopied, ev.BeamPruned)):
            return False
        request_id = event.seq_id.rpartition(".")[0]
        if request_id in self._searching:
            return True
        if isinstance(event, ev.BeamPruned):
            self._searching.add(request_id)
        return False

    def _say(self, event: ev.Event, words: str) -> None:
        note(f"step {event.step:>4}  {words}")
        self._spoke_at = event.t


def print_report(scenario: Scenario, facts: RunFacts, *, is_over: bool, stream: TextIO) -> None:
    """The texts, the counts, and the three things that happened. `is_over`: the run came to its
    end.
    """

    def say(line: str) -> None:
        print(line, file=stream)

    fold, counters = facts.fold, facts.fold.counters
    total = _num_requests(scenario, facts)
    # A pipe has no width: there a long answer is cut all the same, and a sentence stays on its
    # line.
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    say(
        "\n"
        + _wrap(f"{scenario.name} on {clean(fold.header.model)}: {scenario.teaches}", width)
        + "\n"
    )
    name_width = max((len(request.name) for request in facts.requests.values()), default=0)
    for request in facts.finished:
        question = clean((request.prompt or "").partition("\n")[0])
        say(fit(f"  {clean(request.name):<{name_width}}  {question}", width or CUT_AT).rstrip())
        for answer in _answers(request):
            say(fit(f"  {'':<{name_width}}  {answer}", width or CUT_AT).rstrip())
    counts = (
        f"\n{counters.finished_requests} of {plural(total, 'request')} finished in"
        f" {plural(fold.step, 'step')} and {facts.seconds:.1f} s of engine time:"
        f" {plural(counters.generation_tokens, 'token')}, {_tokens_per_s(facts):.1f} a"
        f" second.\n{plural(counters.num_preemptions, 'preemption')},"
        f" {plural(counters.prefix_cache_hits, 'prefix hit token')},"
        f" {plural(counters.evicted_blocks, 'evicted block')},"
        f" {plural(counters.invariant_violations, 'invariant violation')}.\n"
    )
    if counters.forked_sequences:
        counts += (
            f"{plural(counters.forked_sequences, 'forked sequence')},"
            f" {plural(counters.copied_blocks, 'copied block')},"
            f" {plural(facts.pruned_beams, 'pruned beam')}.\n"
        )
    say(counts)
    if counters.finished_requests < total and not is_over:
        say("The run was stopped before its end. Up to there:")
    for number, sentence in enumerate(tell(scenario, facts), start=1):
        say(_wrap(f"  {number}. {sentence}", width, indent=5))


def _num_requests(scenario: Scenario, facts: RunFacts) -> int:
    """The scenario's, also those that had no time to come, and whatever a person asked for beside
    them.
    """
    return len({arrival.request_id for arrival in scenario.arrivals} | facts.requests.keys())


def _answers(request: RequestFacts) -> list[str]:
    """One line for each text of a request. What beams have in common stands in a line of its own:
    it is most of them.
    """
    texts = [clean(text.strip()) for text in request.texts]
    if request.beams_found is None:
        return [f"> {text}" for text in texts]
    # Cut between two words, if there is a space to cut at.
    common = _common_beginning(texts).rpartition(" ")[0]
    lines = ["(what the beams found, best first)"]
    if common:
        lines.append(f"all > {tail(common, COMMON)} …")
    return lines + [f"> {'… ' if common else ''}{text[len(common) :].strip()}" for text in texts]


def _common_beginning(texts: list[str]) -> str:
    # Whatever lies between the first and the last in order begins as they do.
    first, last = min(texts), max(texts)
    length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
        min(len(first), len(last)),
    )
    return first[:length]


def report_json(scenario: Scenario, facts: RunFacts) -> dict[str, object]:
    """The report for programs."""
    counters = facts.fold.counters
    return {
        "scenario": scenario.name,
        "model": facts.fold.header.model,
        "requests": _num_requests(scenario, facts),
        "finished_requests": counters.finished_requests,
        "aborted_requests": counters.aborted_requests,
        "preemptions": counters.num_preemptions,
        "prefix_hit_tokens": counters.prefix_cache_hits,
        "resumed_hit_tokens": counters.resumed_hit_tokens,
        "evicted_blocks": counters.evicted_blocks,
        "forked_sequences": counters.forked_sequences,
        "copied_blocks": counters.copied_blocks,
        "pruned_beams": facts.pruned_beams,
        "invariant_violations": counters.invariant_violations,
        "steps": facts.fold.step,
        "prompt_tokens": counters.prompt_tokens,
        "generated_tokens": counters.generation_tokens,
        "seconds": facts.seconds,
        "tokens_per_s": _tokens_per_s(facts),
        "what_happened": tell(scenario, facts),
    }


def _wrap(text: str, width: int | None, indent: int = 0) -> str:
    return (
        text
        if width is None
        else textwrap.fill(text, max(width, 20), subsequent_indent=" " * indent)
    )


def _tokens_per_s(facts: RunFacts) -> float:
    return facts.fold.counters.generation_tokens / facts.seconds if facts.seconds else 0.0
