"""The output of a headless demo: a line for each decision, and a report at the end.

Only decisions about requests, forks and copies, and violated invariants, get a line. After two
seconds without a line, a status line is printed. A beam search forks at every step: after its first
pruned beam, its forks, copies and prunings get no lines.
"""

from functools import partial
from os.path import commonprefix
from typing import TextIO

from msgspec import structs

from minivllm.cli.terminal import fill, note
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.scenarios.facts import RequestFacts, RunFacts
from minivllm.lessons.scenarios.scenarios import Scenario
from minivllm.lessons.scenarios.stories import tell
from minivllm.text import clean, plural, tail
from minivllm.tui.state.decisions import DecisionLog

SECONDS_WITHOUT_A_WORD = 2.0
COMMON = 100
"""Of the beams' common prefix, the report shows at most this many characters: the last ones."""
_TOLD = (
    ev.RequestArrived, ev.RequestAdmitted, ev.RequestResumed, ev.RequestDeferred,
    ev.RequestPreempted, ev.RequestForked, ev.BlockCopied, ev.BeamPruned, ev.RequestFinished,
    ev.RequestAborted, ev.InvariantViolated,
)  # fmt: skip


class ProgressLines:
    """A listener that prints lines to standard error. `fold` must process each event first."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._log = DecisionLog()
        self._last_decision = None
        self._searching: set[str] = set()
        """Requests that have had a beam pruned."""
        self._spoke_at = fold.t

    def apply(self, event: ev.Event) -> None:
        if isinstance(event, _TOLD) and not self._is_everyday(event):
            self._log.add(event, getattr(event, "seq_id", None), None)
            decision = self._log.decisions[-1]
            if decision is self._last_decision:
                return  # the request still waits for the same reason
            self._last_decision = decision
            words = "".join(text for text, _ in decision.spans())
            self._say(event, f"{decision.name:<6} {words}")
        elif isinstance(event, ev.StepEnd) and event.t - self._spoke_at >= SECONDS_WITHOUT_A_WORD:
            fold = self._fold
            queues = f"{len(fold.running)} running, {len(fold.waiting)} waiting"
            free = f"{plural(len(fold.free_queue), 'block')} free"
            written = f"{plural(fold.counters.generation_tokens, 'token')} written"
            self._say(event, f"       ... {queues}, {free}, {written}")

    def _is_everyday(self, event: ev.Event) -> bool:
        """Whether the event is a routine event of a beam search that has already pruned a beam."""
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


def print_demo_report(
    scenario: Scenario, facts: RunFacts, *, is_over: bool, stream: TextIO
) -> None:
    """Print texts, counts, and what happened. is_over: whether all requests have ended"""
    say = partial(print, file=stream)
    fold, counters = facts.fold, facts.fold.counters
    total = _num_requests(scenario, facts)
    title = f"{scenario.name} on {clean(fold.header.model_and_weights)}: {scenario.teaches}"
    say(f"\n{fill(title, stream=stream)}\n")
    name_width = max((len(request.name) for request in facts.requests.values()), default=0)
    for request in facts.finished:
        question = clean((request.prompt or "").partition("\n")[0])
        say(fill(f"  {clean(request.name):<{name_width}}  {question}", name_width + 4, stream))
        for answer in _answers(request):
            say(fill(" " * (name_width + 4) + answer, name_width + 6, stream))
    is_slowed = fold.t - fold.header.mono > 2 * facts.seconds
    found = f" and {counters.resumed_hit_tokens:,} of resumed ones"
    resumed = found if counters.num_preemptions else ""
    counts = [
        f"{counters.finished_requests} of {plural(total, 'request')} finished in"
        f" {plural(fold.step, 'step')} and {facts.seconds:.1f} s of engine time:"
        f" {plural(counters.generation_tokens, 'token')}, {_tokens_per_s(facts):.1f} a"
        f" second{', without the pauses between steps' * is_slowed}.",
        f"{plural(counters.num_preemptions, 'preemption')},"
        f" {plural(counters.prefix_cache_hits, 'prefix hit token')} of new requests{resumed},"
        f" {plural(counters.evicted_blocks, 'evicted block')}.",
    ]
    if counters.forked_sequences:
        forks = plural(counters.forked_sequences, "forked sequence")
        copies = plural(counters.copied_blocks, "copied block")
        counts.append(f"{forks}, {copies}, {plural(facts.pruned_beams, 'pruned beam')}.")
    if counters.spec_decode_num_draft_tokens:
        drafts = plural(counters.spec_decode_num_draft_tokens, "draft")
        counts.append(f"{drafts}, {counters.spec_decode_num_accepted_tokens:,} of them right.")
    say("", *(fill(row, stream=stream) for row in counts), "", sep="\n")
    if counters.finished_requests < total and not is_over:
        say("The run was stopped early. Until then:")
    for number, sentence in enumerate(tell(scenario, facts), start=1):
        say(fill(f"  {number}. {sentence}", 5, stream))


def _num_requests(scenario: Scenario, facts: RunFacts) -> int:
    """Count the scenario's requests, even future ones, and the requests that a user has added."""
    return len({arrival.request_id for arrival in scenario.arrivals} | facts.requests.keys())


def _answers(request: RequestFacts) -> list[str]:
    """Return one line per text of a request. The common prefix of beams has its own line."""
    texts = [clean(text.strip()) for text in request.texts]
    if request.beams_found is None:
        return [f"> {text}" for text in texts]
    # Cut between two words, if there is a space.
    common = commonprefix(texts).rpartition(" ")[0]  # noqa: RUF071 - of texts
    lines = ["(texts found by the beams, best first)"]
    if common:
        lines.append(f"all > {tail(common, COMMON)} …")
    return lines + [f"> {'… ' if common else ''}{text[len(common) :].strip()}" for text in texts]


def report_json(scenario: Scenario, facts: RunFacts) -> dict[str, object]:
    counters = facts.fold.counters
    return {
        "scenario": scenario.name,
        "model": facts.fold.header.model,
        "weights": facts.fold.header.weights,
        "requests": _num_requests(scenario, facts),
        **structs.asdict(counters),
        "preemptions": counters.num_preemptions,
        "prefix_hit_tokens": counters.prefix_cache_hits,
        "pruned_beams": facts.pruned_beams,
        "draft_tokens": counters.spec_decode_num_draft_tokens,
        "accepted_draft_tokens": counters.spec_decode_num_accepted_tokens,
        "steps": facts.fold.step,
        "generated_tokens": counters.generation_tokens,
        "seconds": facts.seconds,
        "tokens_per_s": _tokens_per_s(facts),
        "what_happened": tell(scenario, facts),
    }


def _tokens_per_s(facts: RunFacts) -> float:
    return facts.fold.counters.generation_tokens / facts.seconds if facts.seconds else 0.0
