"""The output of a headless demo: a line for each decision, and a report at the end.

Only decisions about requests, forks and copies, and violated invariants, get a line. After two
seconds without a line, a status line is printed. A beam search forks at every step: after its first
pruned beam, its forks, copies and prunings get no lines.
"""

import shutil
import textwrap
from functools import partial
from os.path import commonprefix
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
"""Maximum length of an answer in the report if there is no terminal, in characters."""
COMMON = 100
"""Of the beams' common prefix, the report shows at most this many characters: the last ones."""
_COUNTERS = (
    "finished_requests", "aborted_requests", "resumed_hit_tokens", "evicted_blocks",
    "forked_sequences", "copied_blocks", "invariant_violations", "prompt_tokens",
)  # fmt: skip
"""Counters of an engine that a report in JSON has under the same names."""
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
    scenario: Scenario, facts: RunFacts, *, is_over: bool, whole: bool, stream: TextIO
) -> None:
    """Print texts (with `whole`, to their ends), counts, and what happened.

    is_over: whether all requests have ended
    """
    say = partial(print, file=stream)
    fold, counters = facts.fold, facts.fold.counters
    total = _num_requests(scenario, facts)
    # In a pipe, sentences are not wrapped, but long answers are still cut (or wrapped, with
    # `whole`) at CUT_AT.
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    title = f"{scenario.name} on {clean(fold.header.model_and_weights)}: {scenario.teaches}"
    say(f"\n{_wrap(title, width)}\n")
    name_width = max((len(request.name) for request in facts.requests.values()), default=0)
    for request in facts.finished:
        question = clean((request.prompt or "").partition("\n")[0])
        say(fit(f"  {clean(request.name):<{name_width}}  {question}", width or CUT_AT).rstrip())
        indent = " " * (name_width + 4)
        for line in (indent + answer for answer in _answers(request)):
            cut = fit(line, width or CUT_AT).rstrip()
            say(_wrap(line, width or CUT_AT, indent=name_width + 6) if whole else cut)
    is_slowed = fold.t - fold.header.mono > 2 * facts.seconds
    counts = (
        f"\n{counters.finished_requests} of {plural(total, 'request')} finished in"
        f" {plural(fold.step, 'step')} and {facts.seconds:.1f} s of engine time:"
        f" {plural(counters.generation_tokens, 'token')}, {_tokens_per_s(facts):.1f} a"
        f" second{', without the pauses between steps' * is_slowed}.\n{plural(counters.num_preemptions, 'preemption')},"
        f" {plural(counters.prefix_cache_hits, 'prefix hit token')},"
        f" {plural(counters.evicted_blocks, 'evicted block')}.\n"
    )
    if counters.forked_sequences:
        counts += (
            f"{plural(counters.forked_sequences, 'forked sequence')},"
            f" {plural(counters.copied_blocks, 'copied block')},"
            f" {plural(facts.pruned_beams, 'pruned beam')}.\n"
        )
    if counters.spec_decode_num_draft_tokens:
        drafts = plural(counters.spec_decode_num_draft_tokens, "draft")
        counts += f"{drafts}, {counters.spec_decode_num_accepted_tokens:,} of them right.\n"
    say(*(_wrap(row, width) for row in counts.splitlines()), "", sep="\n")
    if counters.finished_requests < total and not is_over:
        say("The run was stopped early. Until then:")
    for number, sentence in enumerate(tell(scenario, facts), start=1):
        say(_wrap(f"  {number}. {sentence}", width, indent=5))


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
        **{name: getattr(counters, name) for name in _COUNTERS},
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


def _wrap(text: str, width: int | None, indent: int = 0) -> str:
    if width is None:
        return text
    return textwrap.fill(text, max(width, 20), subsequent_indent=" " * indent)


def _tokens_per_s(facts: RunFacts) -> float:
    return facts.fold.counters.generation_tokens / facts.seconds if facts.seconds else 0.0
