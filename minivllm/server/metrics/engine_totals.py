"""`EngineTotals`: what vLLM's metrics count, counted from engine events alone.

A sequence here is what vLLM calls a request: for `n` samples vLLM's engine runs `n` requests. So those that run and wait,
their latencies and `request_success` are counted by sequence; prompts, which samples share, once. Three things
differ and are meant to: a request of `n` samples waits as one sequence; `iteration_tokens_total` has the tokens that the
step really computed (vLLM adds a chunked prompt as a whole at its end); and a time that never came to be (aborted
while waiting) is not observed, where vLLM would take a difference with zero.

Knows neither Prometheus nor threads. The easy thing to get wrong is a beam search: its beams are born with tokens and die
without an answer. A beam that was pruned is forgotten and is nobody's success.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from minivllm.events import types as ev
from minivllm.server.metrics import histograms as hist


@dataclass(slots=True)
class _Request:
    """An unfinished request."""

    num_prompt_tokens: int
    max_tokens: int
    n: int
    num_sequences: int = 1
    is_prefilled: bool = False
    most_tokens: int = 0
    """Of its sequences that have ended."""


@dataclass(slots=True)
class _Life:
    """An unfinished sequence; times are the engine's."""

    request: _Request
    arrived: float
    is_running: bool = False
    admitted: float | None = None
    first_token: float | None = None
    last_token: float = 0.0
    num_tokens: int = 0
    num_cached_tokens: int = 0
    num_preemptions: int = 0


class EngineTotals:
    """Give `apply` every event from the engine's first; all names are vLLM's, without `vllm:`."""

    def __init__(self, header: ev.LogHeader) -> None:
        self.num_blocks = header.num_blocks
        self.num_used_blocks = 0
        self.num_requests_running = 0
        self.num_requests_waiting = 0
        names = "num_preemptions", "prompt_tokens", "prompt_tokens_cached", "generation_tokens"
        cache = "prefix_cache_queries", "prefix_cache_hits"
        self.counters: Counter[str] = Counter(dict.fromkeys(names + cache, 0))
        self.request_success: Counter[str] = Counter(dict.fromkeys(("stop", "length", "abort", "error"), 0))
        """By `finished_reason`."""
        tokens = hist.token_buckets(header.max_model_len)
        bounds = {
            "request_prompt_tokens": tokens,
            "request_generation_tokens": tokens,
            "iteration_tokens_total": hist.ITERATION_TOKENS,
            "request_max_num_generation_tokens": tokens,
            "request_params_n": hist.PARAMS_N,
            "request_params_max_tokens": tokens,
            "time_to_first_token_seconds": hist.TIME_TO_FIRST_TOKEN,
            "inter_token_latency_seconds": hist.INTER_TOKEN_LATENCY,
            "request_time_per_output_token_seconds": hist.INTER_TOKEN_LATENCY,
            "e2e_request_latency_seconds": hist.REQUEST_LATENCY,
            "request_queue_time_seconds": hist.REQUEST_LATENCY,
            "request_inference_time_seconds": hist.REQUEST_LATENCY,
            "request_prefill_time_seconds": hist.REQUEST_LATENCY,
            "request_decode_time_seconds": hist.REQUEST_LATENCY,
            "request_num_preemptions": hist.NUM_PREEMPTIONS,
            "request_prefill_kv_computed_tokens": tokens,
        }
        self.histograms = {name: hist.Histogram(bound) for name, bound in bounds.items()}
        self._observe = {name: histogram.observe for name, histogram in self.histograms.items()}
        self._caches = header.enable_prefix_caching
        self._lives: dict[str, _Life] = {}

    # ---- requests on their way ----

    def _arrived(self, event: ev.RequestArrived) -> None:
        request = _Request(len(event.prompt_token_ids), event.max_tokens, event.n)
        self._lives[event.seq_id] = _Life(request, event.t)
        self.num_requests_waiting += 1

    def _admitted(self, event: ev.RequestAdmitted) -> None:
        life = self._enter_batch(event.seq_id)
        life.admitted = event.t
        life.num_cached_tokens = event.num_cached_tokens
        if self._caches:
            self.counters["prefix_cache_queries"] += life.request.num_prompt_tokens
            self.counters["prefix_cache_hits"] += event.num_cached_tokens

    def _resumed(self, event: ev.RequestResumed) -> None:
        self._enter_batch(event.seq_id)

    def _enter_batch(self, seq_id: str) -> _Life:
        life = self._lives[seq_id]
        life.is_running = True
        self.num_requests_waiting -= 1
        self.num_requests_running += 1
        return life

    def _preempted(self, event: ev.RequestPreempted) -> None:
        life = self._lives[event.seq_id]
        life.is_running = False
        life.num_preemptions += 1
        self.num_requests_waiting += 1
        self.num_requests_running -= 1
        self.counters["num_preemptions"] += 1

    def _forked(self, event: ev.RequestForked) -> None:
        # Its parent's wait was its own, too; being preempted happens to each by itself.
        life = self._lives[event.seq_id] = replace(self._lives[event.parent], num_preemptions=0)
        life.request.num_sequences += 1
        self.num_requests_running += 1

    def _sampled(self, event: ev.TokenSampled) -> None:
        life = self._lives[event.seq_id]
        life.num_tokens += 1
        self.counters["generation_tokens"] += 1
        if life.first_token is None:
            life.first_token = event.t
            self._observe["time_to_first_token_seconds"](event.t - life.arrived)
        else:
            self._observe["inter_token_latency_seconds"](event.t - life.last_token)
        life.last_token = event.t
        if not life.request.is_prefilled:
            life.request.is_prefilled = True
            self.counters["prompt_tokens"] += life.request.num_prompt_tokens
            self.counters["prompt_tokens_cached"] += life.num_cached_tokens

    # ---- their ends ----

    def _finished(self, event: ev.RequestFinished) -> None:
        self.request_success[event.reason] += 1
        self._end(event)

    def _aborted(self, event: ev.RequestAborted) -> None:
        self.request_success["abort" if event.error is None else "error"] += 1
        self._end(event)

    def _end(self, event: ev.RequestFinished | ev.RequestAborted) -> None:
        life = self._leave(event.seq_id)
        request, observe = life.request, self._observe
        observe["e2e_request_latency_seconds"](event.t - life.arrived)
        observe["request_prompt_tokens"](request.num_prompt_tokens)
        observe["request_generation_tokens"](life.num_tokens)
        observe["request_params_max_tokens"](request.max_tokens)
        observe["request_num_preemptions"](life.num_preemptions)
        if life.admitted is not None:
            observe["request_queue_time_seconds"](life.admitted - life.arrived)
            observe["request_prefill_kv_computed_tokens"](request.num_prompt_tokens - life.num_cached_tokens)
            if life.first_token is not None:
                decode = life.last_token - life.first_token
                observe["request_prefill_time_seconds"](life.first_token - life.admitted)
                observe["request_decode_time_seconds"](decode)
                observe["request_inference_time_seconds"](life.last_token - life.admitted)
                observe["request_time_per_output_token_seconds"](decode / max(life.num_tokens - 1, 1))

    def _pruned(self, event: ev.BeamPruned) -> None:
        self._leave(event.seq_id)

    def _leave(self, seq_id: str) -> _Life:
        """A sequence is gone, and with the last one its request."""
        life = self._lives.pop(seq_id)
        if life.is_running:
            self.num_requests_running -= 1
        else:
            self.num_requests_waiting -= 1
        request = life.request
        request.num_sequences -= 1
        request.most_tokens = max(request.most_tokens, life.num_tokens)
        if request.num_sequences == 0:
            self._observe["request_params_n"](request.n)
            self._observe["request_max_num_generation_tokens"](request.most_tokens)
        return life

    # ---- memory and steps ----

    def _took_block(self, event: ev.BlockAllocated | ev.BlockCopied) -> None:
        self.num_used_blocks += 1

    def _hit(self, event: ev.BlockHit) -> None:
        self.num_used_blocks += event.was_free

    def _freed(self, event: ev.BlockFreed) -> None:
        self.num_used_blocks -= 1

    def _step_end(self, event: ev.StepEnd) -> None:
        self._observe["iteration_tokens_total"](event.used)


APPLY: dict[type[ev.Event], Callable[[EngineTotals, ev.Event], None]] = {
    ev.RequestArrived: EngineTotals._arrived,
    ev.RequestAdmitted: EngineTotals._admitted,
    ev.RequestResumed: EngineTotals._resumed,
    ev.RequestPreempted: EngineTotals._preempted,
    ev.RequestForked: EngineTotals._forked,
    ev.TokenSampled: EngineTotals._sampled,
    ev.RequestFinished: EngineTotals._finished,
    ev.RequestAborted: EngineTotals._aborted,
    ev.BeamPruned: EngineTotals._pruned,
    ev.BlockAllocated: EngineTotals._took_block,
    ev.BlockCopied: EngineTotals._took_block,
    ev.BlockHit: EngineTotals._hit,
    ev.BlockFreed: EngineTotals._freed,
    ev.StepEnd: EngineTotals._step_end,
}
"""What is counted; every other kind tells a reason or a detail."""
