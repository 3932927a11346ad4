"""`EngineTotals`: vLLM's metrics, counted from engine events alone.

For a request with `n` samples, vLLM's engine runs `n` requests. So most metrics here count
sequences, but a shared prompt counts once. Three differences from vLLM are intended:

    a request with n samples    waits as one sequence
    iteration_tokens_total      counts a chunked prompt's tokens in the step that computes them
                                (vLLM counts all of them in the step that ends the prompt)
    a time without an end       is not observed, for example the queue time of an aborted request
                                (vLLM takes 0 for the missing end and observes the difference)

A beam's tokens include those of its parent before the fork. A pruned beam is not a success.
"""

from collections.abc import Callable

from minivllm.events import types as ev
from minivllm.events.ledger import RequestLedger, SequenceRecord
from minivllm.server.metrics.histograms import HISTOGRAMS, Histogram, token_buckets

COUNTERS = {
    "num_preemptions": "Preemptions of sequences.",
    "prompt_tokens": "Prompt tokens of requests that got their first token, cached ones included.",
    "prompt_tokens_cached": "Prompt tokens found in the prefix cache.",
    "generation_tokens": "Sampled tokens.",
    "prefix_cache_queries": "Tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Tokens found in the prefix cache.",
}
"""Name -> meaning."""
SPEC_DECODE = {
    "spec_decode_num_drafts": "How often drafts of a sequence were verified.",
    "spec_decode_num_draft_tokens": "Drafted tokens.",
    "spec_decode_num_accepted_tokens": "Drafted tokens that were accepted.",
}
"""The same for an engine with drafts."""


class EngineTotals:
    def __init__(self, header: ev.LogHeader) -> None:
        self.num_blocks = header.num_blocks
        self.num_used_blocks = 0
        speculative = header.config.get("speculative_config")
        self.counters = dict.fromkeys(COUNTERS | (SPEC_DECODE if speculative else {}), 0)
        most = speculative["num_speculative_tokens"] if speculative else 0
        self.accepted_per_position = [0] * most
        """How often the first draft of a sequence was accepted, the second, and so on."""
        self.request_success = dict.fromkeys(("stop", "length", "abort", "error"), 0)
        """`finished_reason` -> number of sequences that ended for this reason."""
        tokens = token_buckets(header.max_model_len)
        self.histograms = {
            name: Histogram(bounds or tokens) for name, (_, bounds) in HISTOGRAMS.items()
        }
        self._observe = {name: histogram.observe for name, histogram in self.histograms.items()}
        self._num_drafts: dict[str, int] = {}
        """Drafts of each sequence that are not verified yet."""
        self._caches = header.enable_prefix_caching
        self.ledger = RequestLedger()

    def _admitted(self, event: ev.RequestAdmitted) -> None:
        record = self.ledger.admitted(event)
        if self._caches:
            self.counters["prefix_cache_queries"] += record.request.num_prompt_tokens
            self.counters["prefix_cache_hits"] += event.num_cached_tokens

    def _preempted(self, event: ev.RequestPreempted) -> None:
        self.ledger.preempted(event)
        self.counters["num_preemptions"] += 1

    def _sampled(self, event: ev.TokenSampled) -> None:
        self.counters["generation_tokens"] += 1
        gap = self.ledger.sampled(event)
        if gap is not None:
            if gap:  # once for all tokens of a step, as in vLLM
                self._observe["inter_token_latency_seconds"](gap)
            return
        record = self.ledger.sequences[event.seq_id]
        self._observe["time_to_first_token_seconds"](record.time_to_first_token)
        if record.request.num_first_tokens == 1:
            self.counters["prompt_tokens"] += record.request.num_prompt_tokens
            self.counters["prompt_tokens_cached"] += record.num_cached_tokens

    def _drafted(self, event: ev.DraftProposed) -> None:
        self._num_drafts[event.seq_id] = len(event.token_ids)

    def _verified(self, event: ev.DraftVerified) -> None:
        added = 1, self._num_drafts.pop(event.seq_id), event.num_accepted
        for name, number in zip(SPEC_DECODE, added, strict=True):
            self.counters[name] += number
        for position in range(event.num_accepted):
            self.accepted_per_position[position] += 1

    def _finished(self, event: ev.RequestFinished) -> None:
        self.request_success[event.reason] += 1
        self._end(event)

    def _aborted(self, event: ev.RequestAborted) -> None:
        self.request_success["abort" if event.error is None else "error"] += 1
        self._end(event)

    def _end(self, event: ev.RequestFinished | ev.RequestAborted) -> None:
        record = self._leave(event)
        request, observe = record.request, self._observe
        observe["e2e_request_latency_seconds"](event.t - record.arrived)
        observe["request_prompt_tokens"](request.num_prompt_tokens)
        observe["request_generation_tokens"](record.num_tokens)
        observe["request_params_max_tokens"](request.max_tokens)
        observe["request_num_preemptions"](record.num_preemptions)
        if record.admitted is not None:
            observe["request_queue_time_seconds"](record.admitted - record.arrived)
            observe["request_prefill_kv_computed_tokens"](
                request.num_prompt_tokens - record.num_cached_tokens
            )
            if record.first_token is not None:
                decode = record.last_token - record.first_token
                observe["request_prefill_time_seconds"](record.first_token - record.admitted)
                observe["request_decode_time_seconds"](decode)
                observe["request_inference_time_seconds"](record.last_token - record.admitted)
                observe["request_time_per_output_token_seconds"](
                    record.time_per_output_token or 0.0
                )

    def _leave(
        self, event: ev.RequestFinished | ev.RequestAborted | ev.BeamPruned
    ) -> SequenceRecord:
        record = self.ledger.ended(event)
        self._num_drafts.pop(event.seq_id, None)  # of a step that failed
        if record.request.num_sequences == 0:
            self._observe["request_params_n"](record.request.n)
            self._observe["request_max_num_generation_tokens"](record.request.most_tokens)
        return record

    def _took_block(self, event: ev.BlockAllocated | ev.BlockCopied) -> None:
        self.num_used_blocks += 1

    def _hit(self, event: ev.BlockHit) -> None:
        self.num_used_blocks += event.was_free

    def _freed(self, event: ev.BlockFreed) -> None:
        self.num_used_blocks -= 1

    def _step_end(self, event: ev.StepEnd) -> None:
        self._observe["iteration_tokens_total"](event.used)


APPLY: dict[type[ev.Event], Callable[[EngineTotals, ev.Event], None]] = {
    ev.RequestArrived: lambda totals, event: totals.ledger.arrived(event),
    ev.RequestAdmitted: EngineTotals._admitted,
    ev.RequestResumed: lambda totals, event: totals.ledger.admitted(event),
    ev.RequestPreempted: EngineTotals._preempted,
    ev.RequestForked: lambda totals, event: totals.ledger.forked(event),
    ev.DraftProposed: EngineTotals._drafted,
    ev.DraftVerified: EngineTotals._verified,
    ev.TokenSampled: EngineTotals._sampled,
    ev.RequestFinished: EngineTotals._finished,
    ev.RequestAborted: EngineTotals._aborted,
    ev.BeamPruned: EngineTotals._leave,
    ev.BlockAllocated: EngineTotals._took_block,
    ev.BlockCopied: EngineTotals._took_block,
    ev.BlockHit: EngineTotals._hit,
    ev.BlockFreed: EngineTotals._freed,
    ev.StepEnd: EngineTotals._step_end,
}
"""What to count for each kind of event; other kinds change no metric."""
