"""`EngineService`: the engine's thread as seen from asyncio.

    generation = await service.submit([NewRequest(id, prompt, params)], deadline)
    async for output in generation: ...

The service limits how many requests wait. A request that ends early (client gone, timeout,
shutdown) is aborted before the engine's next step. An engine that dies fails all open requests.

Waking the event loop for each output would take longer than computing the output. So the engine's
thread appends outputs to a deque, and wakes the event loop only if no wake-up is pending.

Source: vLLM `vllm/v1/engine/async_llm.py`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.engine.requests import Prompt
from minivllm.errors import (
    EngineDeadError,
    InvalidRequestError,
    MinivllmError,
    OverloadedError,
    RequestTimeoutError,
    ShuttingDownError,
    UnusableGrammarError,
)
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams
from minivllm.server.generation import Generation
from minivllm.server.protocol.structured_outputs import RequestedGrammar
from minivllm.server.workers import Workers

T = TypeVar("T")

_RETRY_AFTER = 1
"""Seconds before a client should ask a full server again: about the time of a short answer."""

_log = logging.getLogger("minivllm.server")


@dataclass(frozen=True, slots=True)
class NewRequest:
    request_id: str
    prompt: Prompt
    params: SamplingParams
    priority: int = 0
    grammar: RequestedGrammar | None = None
    """The client's name for the grammar in `params`."""


class EngineService:
    """The engine for the endpoints. Call all methods except the constructor in one event loop."""

    def __init__(self, engine: LLMEngine, *, max_waiting_requests: int = 256) -> None:
        self.tokenizer = engine.tokenizer
        self.max_model_len = engine.max_model_len
        self.config = engine.config
        self.weights = engine.weights
        self._num_blocks = engine.log_header().num_blocks
        self._max_waiting = max_waiting_requests
        self._grammars = engine.grammars
        self._thread = EngineThread(engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generations: set[Generation] = set()
        self._timers: dict[Generation, asyncio.TimerHandle] = {}
        self.draining = asyncio.Event()
        """Set when the server accepts no more requests."""
        self._when_over: list[Callable[[MinivllmError], None]] = []
        # Both threads use the next two: single operations on sets and deques are thread-safe.
        self._waiting: set[str] = set()
        """Ids of the first sequences of all requests that have not been admitted yet."""
        self._inbox: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._wake_up_sent = False
        # `Tokenizer.encode` releases the GIL, so a long prompt in a worker does not delay other
        # streams.
        self._workers = Workers()
        engine.subscribe(self._on_event)

    # ---- life ----

    async def start(self) -> None:
        """Call this in the event loop of the server."""
        self._loop = asyncio.get_running_loop()
        self._thread.ended.add_done_callback(self._on_thread_end)
        self._thread.start()

    def begin_drain(self, timeout: float) -> None:
        """Accept no more requests. Requests still running after `timeout` seconds get an error."""
        if self.is_draining:
            return
        self.draining.set()
        self._end_if_drained()
        _log.info(
            "draining", extra={"fields": {"requests": len(self._generations), "timeout": timeout}}
        )
        self._loop.call_later(timeout, self.give_up_all)

    def give_up_all(self) -> None:
        for generation in list(self._generations):
            generation.fail(
                ShuttingDownError("The server shut down before the request was finished.")
            )

    async def close(self) -> None:
        self.draining.set()
        self.give_up_all()
        self._end_if_drained()
        self._thread.stop()
        try:
            await asyncio.to_thread(self._thread.join, 60.0)
        # The engine failed earlier, and the failure was logged.
        except Exception as error:
            _log.info(
                "the engine's thread has ended", extra={"fields": {"error": type(error).__name__}}
            )
        self._workers.shutdown()

    def when_over(self, end: Callable[[MinivllmError], None]) -> None:
        """Call `end` in the event loop, with the reason, after the last request has been served.

        `end` should close connections that would otherwise stay open for ever.
        """
        self._when_over.append(end)

    def _end_if_drained(self) -> None:
        if self.is_draining and not self._generations:
            self._tell_over(ShuttingDownError("The server is shutting down."))

    def _tell_over(self, why: MinivllmError) -> None:
        while self._when_over:
            self._when_over.pop()(why)

    @property
    def is_dead(self) -> bool:
        """Whether the engine's thread has ended, for any reason."""
        return self._thread.ended.done()

    @property
    def is_draining(self) -> bool:
        return self.draining.is_set()

    @property
    def num_waiting(self) -> int:
        """Number of submitted requests that the scheduler has not admitted yet."""
        return len(self._waiting)

    @property
    def num_unfinished(self) -> int:
        """Number of HTTP requests without a complete answer."""
        return len(self._generations)

    # ---- requests ----

    async def submit(self, requests: list[NewRequest], deadline: float) -> Generation:
        """Queue all of `requests`, or none of them. `deadline` is a time of the event loop's clock.

        Raises `OverloadedError`, `ShuttingDownError` or `EngineDeadError` at once. Several requests
        are checked before any is queued, and a refusal is raised here. A single request is not
        checked first; if the engine refuses it, the generation raises.
        """
        self._refuse_if_closed(len(requests))
        if len(requests) > 1:
            await self.ask_engine(partial(_check_all, requests))
            self._refuse_if_closed(len(requests))
        generation = Generation((request.request_id for request in requests), self._on_end)
        self._generations.add(generation)
        self._timers[generation] = self._loop.call_at(deadline, self._time_out, generation)
        for request in requests:
            self._waiting.add(f"{request.request_id}.0")
            future = self._thread.add_request(
                request.request_id,
                request.prompt,
                request.params,
                request.priority,
                on_output=partial(self._post, generation.put),
            )
            future.add_done_callback(partial(self._on_engine_done, generation, request))
        return generation

    async def ask_engine(self, question: Callable[[LLMEngine], T]) -> T:
        """Call `question(engine)` between two of the engine's steps, and return its result."""
        return await asyncio.wrap_future(self.call_engine(question))

    def call_engine(self, question: Callable[[LLMEngine], T]) -> Future[T]:
        """Like `ask_engine`, but any thread may call it, and it returns a future."""
        return self._thread.call(question)

    async def in_worker(
        self, size: int, work: Callable[..., T], *args: object, renders_template: bool = False
    ) -> T:
        """Run `work(*args)` (tokenizing, chat templates) in a worker thread.

        size: number of characters or tokens
        """
        return await asyncio.wrap_future(
            self._workers.submit(size, work, *args, renders_template=renders_template)
        )

    async def prepare_grammar(self, params: StructuredOutputsParams) -> None:
        """Check a grammar and begin to compile it, in a worker thread.

        The engine's thread then only looks it up. Raises `InvalidSamplingParamsError`.
        """
        await asyncio.wrap_future(self._workers.submit_grammar(self._grammars.prepare, params))

    def tidy_up(self) -> None:
        """Return free memory to the system. Called after a flood of large requests."""
        if not self.is_draining:
            self._workers.tidy_up()

    def most_output_tokens(self, num_prompt_tokens: int, num_sequences: int) -> int:
        """Return how many tokens each sequence can generate in context and memory, but at least 1.

        This is the default for `max_tokens`, the inverse of `core.admission.refuse_if_too_large`.
        """
        in_context = self.max_model_len - num_prompt_tokens
        block_size = self.config.block_size
        if self.config.kv_cache_allocator == "contiguous":
            return max(1, in_context)
        num_shared = num_prompt_tokens // block_size
        blocks_of_each = num_shared + (self._num_blocks - num_shared) // num_sequences
        return max(1, min(in_context, blocks_of_each * block_size + 1 - num_prompt_tokens))

    # ---- how a generation ends ----

    def _refuse_if_closed(self, num_new: int) -> None:
        if self.is_dead and not self.is_draining:
            raise EngineDeadError("The engine has failed: restart this server.")
        if self.is_draining:
            raise ShuttingDownError("The server is shutting down and accepts no more requests.")
        if num_new > self._max_waiting:
            raise InvalidRequestError(
                f"prompt has {num_new} prompts, but this server queues at most"
                f" {self._max_waiting}: send fewer at a time."
            )
        if len(self._waiting) + num_new > self._max_waiting:
            raise OverloadedError(
                f"{len(self._waiting)} requests are waiting, and this server queues at most"
                f" {self._max_waiting}: try again later.",
                retry_after=_RETRY_AFTER,
            )

    def _on_end(self, generation: Generation) -> None:
        self._generations.discard(generation)
        self._timers.pop(generation).cancel()
        for request_id in generation.unfinished:
            self._waiting.discard(f"{request_id}.0")
            self._thread.abort_request(request_id)
        self._end_if_drained()

    def _time_out(self, generation: Generation) -> None:
        generation.fail(
            RequestTimeoutError(
                "The request was not finished within the server's time limit: ask for fewer tokens."
            )
        )

    # ---- from the engine's thread ----

    def _on_event(self, event: ev.Event) -> None:
        if type(event) is ev.RequestAdmitted:
            self._waiting.discard(event.seq_id)

    def _on_engine_done(
        self, generation: Generation, request: NewRequest, future: Future[RequestOutput]
    ) -> None:
        if (error := future.exception()) is not None:
            if isinstance(error, UnusableGrammarError) and request.grammar is not None:
                error = request.grammar.with_clients_names(error)
            self._post(generation.fail, error)

    def _post(self, function: Callable[[T], None], argument: T) -> None:
        """Call `function(argument)` in the event loop, in the order of the calls."""
        self._inbox.append((function, argument))
        if not self._wake_up_sent:
            self._wake_up_sent = True
            self._loop.call_soon_threadsafe(self._take_inbox)

    def _take_inbox(self) -> None:
        # First, so that an item that arrives later is either taken below, or sends another wake-up.
        self._wake_up_sent = False
        for _ in range(len(self._inbox)):
            function, argument = self._inbox.popleft()
            function(argument)

    def _on_thread_end(self, ended: Future[None]) -> None:
        if (error := ended.exception()) is not None:
            _log.critical("the engine has died", exc_info=error)
            self._post(self._tell_over, EngineDeadError("The engine has failed."))


def _check_all(requests: list[NewRequest], engine: LLMEngine) -> None:
    for request in requests:
        engine.check_request(request.request_id, request.prompt, request.params, request.priority)
