"""`EngineService`: the engine's thread as seen from asyncio.

    generation = await service.submit([NewRequest(id, prompt, params)], deadline, log)
    async for output in generation: ...

The service limits how many requests wait. A request that ends early (client gone, timeout,
shutdown) is aborted before the engine's next step. An engine that dies fails all open requests.
Tokenizing, chat templates and the check of a grammar run in worker threads.

Waking the event loop for each output would take longer than computing the output. So the engine's
thread appends outputs to a deque, and wakes the event loop only if no wake-up is pending.

Source: vLLM `vllm/v1/engine/async_llm.py`.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from minivllm import errors as err
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.engine.requests import Prompt
from minivllm.events import types as ev
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import SamplingParams
from minivllm.server.errors import TOO_LATE
from minivllm.server.options import ServerOptions
from minivllm.server.protocol.structured_outputs import RequestedGrammar

T = TypeVar("T")

LONG = 32 * 1024
"""Longer texts have a worker of their own: tokenizing a mebibyte of characters takes a second."""

_log = logging.getLogger("minivllm.server")


@dataclass(frozen=True, slots=True)
class NewRequest:
    request_id: str
    prompt: Prompt
    params: SamplingParams
    priority: int = 0
    grammar: RequestedGrammar | None = None
    """The client's name for the grammar in `params`."""

    def check(self, engine: LLMEngine) -> None:
        engine.check_request(self.request_id, self.prompt, self.params, self.priority)


class Generation:
    """An async iterator over the engine's outputs for one HTTP request.

    Each prompt is a request in the engine. The generation ends when all of these have finished, or
    early: one fails, the deadline passes, the server shuts down, or the client leaves.
    """

    def __init__(self, request_ids: Iterable[str], on_end: Callable[["Generation"], None]) -> None:
        """on_end: called once at the end; `unfinished` then contains the requests to abort"""
        self.request_ids = list(request_ids)
        self.unfinished = set(self.request_ids)
        self._news: asyncio.Queue[RequestOutput | BaseException | None] = asyncio.Queue()
        self._ended = False
        self._on_end = on_end

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> RequestOutput:
        """Return the next output. At the end, raise the error that ended the generation."""
        news = await self._news.get()
        if isinstance(news, RequestOutput):
            return news
        raise StopAsyncIteration if news is None else news

    def put(self, output: RequestOutput) -> None:
        if self._ended:
            return
        self._news.put_nowait(output)
        if output.finished:
            self.unfinished.discard(output.request_id)
            if not self.unfinished:
                self.end()

    def end(self, error: BaseException | None = None) -> None:
        """End now, for all requests; the first call counts. Without an error, the client left."""
        if not self._ended:
            self._ended = True
            self._news.put_nowait(error)
            self._on_end(self)


class EngineService:
    """The engine for the endpoints. Call all methods except the constructor in one event loop."""

    def __init__(self, engine: LLMEngine, options: ServerOptions) -> None:
        self.options = options
        self.tokenizer = engine.tokenizer
        self.max_model_len = engine.max_model_len
        self.config = engine.config
        self.weights = engine.weights
        self.model_name = _served_name(options, engine.config.model)
        self.created = int(time.time())
        self.is_draining = False
        """Whether the server accepts no more requests."""
        self.on_over: Callable[[err.MinivllmError], None] = lambda why: None
        """Called with the reason after the last request: closes streams that would never end."""
        self._num_blocks = engine.log_header().num_blocks
        self._grammars = engine.grammars
        self._thread = EngineThread(engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._generations: dict[Generation, asyncio.TimerHandle] = {}
        # Both threads use the next two: single operations on dicts and deques are thread-safe.
        self._waiting: dict[str, tuple[float, dict[str, Any]]] = {}
        """First sequence of each request that was not admitted yet -> since when, and its log."""
        self._inbox: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._wake_up_sent = False
        self._short = ThreadPoolExecutor(2, "minivllm-short-texts")
        self._long = ThreadPoolExecutor(1, "minivllm-long-texts")
        self._checks = ThreadPoolExecutor(1, "minivllm-grammars")
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
        self.is_draining = True
        self._end_if_drained()
        fields = {"requests": len(self._generations), "timeout": timeout}
        _log.info("draining", extra={"fields": fields})
        self._loop.call_later(timeout, self.give_up_all)

    def give_up_all(self) -> None:
        for generation in list(self._generations):
            generation.end(err.ShuttingDownError("The server shut down before the request ended."))

    async def close(self) -> None:
        self.is_draining = True
        self.give_up_all()
        self._end_if_drained()
        self._thread.stop()
        try:
            await asyncio.to_thread(self._thread.join, 60.0)
        # The engine failed earlier, and the failure was logged.
        except Exception as error:
            fields = {"error": type(error).__name__}
            _log.info("the engine's thread has ended", extra={"fields": fields})
        for pool in (self._short, self._long, self._checks):
            pool.shutdown(wait=False, cancel_futures=True)

    def _end_if_drained(self) -> None:
        if self.is_draining and not self._generations:
            self.on_over(err.ShuttingDownError("The server is shutting down."))

    @property
    def is_dead(self) -> bool:
        """Whether the engine's thread has ended, for any reason."""
        return self._thread.ended.done()

    @property
    def num_waiting(self) -> int:
        """Number of submitted requests that the scheduler has not admitted yet."""
        return len(self._waiting)

    @property
    def num_unfinished(self) -> int:
        """Number of HTTP requests without a complete answer."""
        return len(self._generations)

    # ---- before a request ----

    def check_model(self, name: str | None) -> None:
        """Raise `UnknownModelNameError` if a request names another model."""
        if name is not None and name != self.model_name:
            raise err.UnknownModelNameError(
                f"The model {name!r:.80} is not available on this server: use {self.model_name!r}."
            )

    async def to_prompt(
        self, prompt: str | list[int], cache_salt: str | None, add_special_tokens: bool = True
    ) -> Prompt:
        """Tokenize a prompt in a worker. Raises `PromptTooLongError`."""
        salt = {} if cache_salt is None else {"cache_salt": cache_salt}
        if not isinstance(prompt, str):
            return {"prompt_token_ids": prompt, **salt}
        encode = self.tokenizer.encode
        token_ids = await self.in_worker(len(prompt), encode, prompt, add_special_tokens)
        return {"prompt_token_ids": token_ids, "prompt": prompt, **salt}

    async def prepare_grammar(self, grammar: RequestedGrammar | None) -> None:
        """Check a grammar, or raise an error with the name of the client's field, and begin to
        compile it. The engine's thread then only looks it up.
        """
        if grammar is not None:
            try:
                checked = self._checks.submit(self._grammars.prepare, grammar.params)
                await asyncio.wrap_future(checked)
            except err.InvalidSamplingParamsError as error:
                raise grammar.with_clients_names(error) from None

    async def in_worker(self, size: int, work: Callable[..., T], *args: object) -> T:
        """Run `work(*args)` in a worker thread. size: number of characters or tokens"""
        pool = self._short if size <= LONG else self._long
        return await asyncio.wrap_future(pool.submit(work, *args))

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

    # ---- requests ----

    async def submit(
        self, requests: list[NewRequest], deadline: float, log: dict[str, Any]
    ) -> Generation:
        """Queue all of `requests`, or none of them.

        deadline: a time of the event loop's clock; log: gets the seconds in the queue
        Raises `OverloadedError`, `ShuttingDownError` or `EngineDeadError`. Several requests are
        checked before any is queued. If the engine refuses a single one, the generation raises.
        """
        self._refuse_if_closed(len(requests))
        if len(requests) > 1:
            await self.ask_engine(lambda engine: [request.check(engine) for request in requests])
            self._refuse_if_closed(len(requests))
        generation = Generation((request.request_id for request in requests), self._on_end)
        timeout = err.RequestTimeoutError(TOO_LATE)
        self._generations[generation] = self._loop.call_at(deadline, generation.end, timeout)
        for request in requests:
            self._waiting[f"{request.request_id}.0"] = time.monotonic(), log
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
        return await asyncio.wrap_future(self._thread.call(question))

    def _refuse_if_closed(self, num_new: int) -> None:
        if self.is_draining:
            raise err.ShuttingDownError("The server is shutting down and accepts no more requests.")
        if self.is_dead:
            raise err.EngineDeadError("The engine has failed: restart this server.")
        limit = self.options.max_waiting_requests
        if num_new > limit:
            raise err.InvalidRequestError(
                f"prompt has {num_new} prompts, but this server queues at most {limit}: send fewer"
                " at a time."
            )
        if self.num_waiting + num_new > limit:
            raise err.OverloadedError(
                f"{self.num_waiting} requests wait, and the queue holds at most {limit}: try"
                " again later.",
                retry_after=1,  # seconds: about the time of a short answer
            )

    def _on_end(self, generation: Generation) -> None:
        self._generations.pop(generation).cancel()
        for request_id in generation.unfinished:
            self._waiting.pop(f"{request_id}.0", None)
            self._thread.abort_request(request_id)
        self._end_if_drained()

    # ---- from the engine's thread ----

    def _on_event(self, event: ev.Event) -> None:
        if type(event) is ev.RequestAdmitted and (waited := self._waiting.pop(event.seq_id, None)):
            since, log = waited
            log["queue_seconds"] = round(time.monotonic() - since, 4)

    def _on_engine_done(
        self, generation: Generation, request: NewRequest, future: Future[RequestOutput]
    ) -> None:
        if (error := future.exception()) is not None:
            if isinstance(error, err.UnusableGrammarError) and request.grammar is not None:
                error = request.grammar.with_clients_names(error)
            self._post(generation.end, error)

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
            self._post(self.on_over, err.EngineDeadError("The engine has failed."))


def _served_name(options: ServerOptions, model: str) -> str:
    """Return the model's name for clients. They must not learn where a local model is stored."""
    if options.served_model_name is not None:
        return options.served_model_name
    return Path(model).name if Path(model).is_absolute() or model.startswith((".", "~")) else model
