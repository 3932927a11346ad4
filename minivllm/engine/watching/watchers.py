"""`Watchers`: what a step shows to those who asked: kernel traces, attention, explained tokens.

A step asks four times: `before` and `after` the model runs, which tokens will be `explained`, and
what to show of the tokens `drawn`. While nobody watches, each question costs one or two tests.
"""

from collections.abc import Collection, Mapping

from minivllm.core.request import Request, Sequence
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.engine.detokenizer import TokenDecoder
from minivllm.engine.watching.kernel_tracing import AttentionRecorder, KernelTracer
from minivllm.engine.watching.token_explaining import TokenExplainer
from minivllm.engine.watching.token_names import TokenNames
from minivllm.events.bus import EventBus
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch
from minivllm.speculation.verify import Drawn, Verified


class Watchers:
    def __init__(self, decoder: TokenDecoder, bus: EventBus, *, explain_all: bool) -> None:
        """explain_all: explain the tokens of every sequence (the option `explain_tokens`)"""
        self.names = TokenNames(decoder, bus)
        self.tracer = KernelTracer(bus)
        self.attention = AttentionRecorder(bus)
        self.explainer = TokenExplainer(self.names, bus, explain_all=explain_all)

    def before(self, plan: SchedulerOutput) -> Watch:
        """Return what the model shall record of the step."""
        if not (self.tracer.active or self.attention.active):
            return WATCH_NOTHING
        return Watch(self.tracer.decodes_to_watch(plan), *self.attention.watch(plan))

    def after(self, plan: SchedulerOutput, watch: Watch, result: StepResult) -> None:
        """Emit what the model has recorded. `plan`: the part of the step's plan that ran."""
        if watch.attention_mass:
            self.attention.emit(plan, result)
        # A plan that ran in pieces has no samples; the tracer asks again in the next step.
        for index, sample in zip(watch.decodes, result.decode_samples, strict=False):
            self.tracer.trace(plan.scheduled[index].sequence.seq_id, sample)

    def explained(self, sequences: list[Sequence]) -> Collection[Sequence]:
        """Return the sequences whose tokens the sampler must explain."""
        return self.explainer.watched(sequences) if self.explainer.active else ()

    def drawn(self, tokens: list[Drawn], verified: list[Verified]) -> None:
        """Emit the explanations of tokens that are not appended yet, those of drafts last."""
        if self.explainer.active:
            self.explainer.explain(tokens + [row for item in verified for row in item.rows])

    def forget_ended(self, requests: Mapping[str, Request]) -> None:
        """Tell those who wait for a sequence that has ended."""
        if self.tracer.active:
            self.tracer.forget_ended(requests)
