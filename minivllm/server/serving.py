"""`Serving`: what all endpoints share: the model's name, tokenizing, and sending answers.

A stream sends nothing before its first token, so that an earlier failure can still set the HTTP
status. A client can disconnect while its request is being submitted. Only a response watches the
connection, so until there is one, `stream` and `answer` close the generation themselves.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fastapi import Request, Response
from pydantic import BaseModel

from minivllm.config import EngineConfig
from minivllm.engine.requests import Prompt
from minivllm.errors import (
    InvalidRequestError,
    InvalidSamplingParamsError,
    PromptTooLongError,
    UnknownModelNameError,
)
from minivllm.outputs import RequestOutput
from minivllm.server.generation import Generation
from minivllm.server.http import sse
from minivllm.server.http.disconnect import StreamedResponse
from minivllm.server.logs import REQUEST_ID
from minivllm.server.options import ServerOptions
from minivllm.server.protocol.base import RequestFields, SamplingFields
from minivllm.server.protocol.structured_outputs import RequestedGrammar
from minivllm.server.service import EngineService, NewRequest
from minivllm.server.usage import TokenCount

WRITTEN_AT_ONCE = 2000
"""Tokens and log-probabilities that are serialized in a few milliseconds."""


class Answer(Protocol):
    """How one of OpenAI's endpoints turns the engine's outputs into its answer."""

    def whole(self, outputs: list[RequestOutput]) -> BaseModel:
        """The response body, made from the last output of each request."""

    def events(self, generation: Generation, request: Request) -> AsyncGenerator[bytes, None]:
        """Server-sent events, one for each new output."""


class Serving:
    def __init__(self, service: EngineService, options: ServerOptions) -> None:
        self.service = service
        self.options = options
        self.created = int(time.time())
        self.model_name = served_name(options, service.config)

    def check_model(self, name: str | None) -> None:
        """Raise `UnknownModelNameError` if a request names another model."""
        if name is not None and name != self.model_name:
            raise UnknownModelNameError(
                f"The model {name!r:.80} is not available on this server: use {self.model_name!r}."
            )

    async def to_prompt(
        self, prompt: str | list[int], cache_salt: str | None, add_special_tokens: bool = True
    ) -> Prompt:
        """Tokenize a prompt in a worker, so that neither the event loop nor the engine waits."""
        salt = {} if cache_salt is None else {"cache_salt": cache_salt}
        if not isinstance(prompt, str):
            return {"prompt_token_ids": prompt, **salt}
        token_ids = await self.service.in_worker(
            len(prompt), self._encode, prompt, add_special_tokens
        )
        return {"prompt_token_ids": token_ids, "prompt": prompt, **salt}

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """Tokenize `text`. Raises `PromptTooLongError`, if possible before tokenizing."""
        limit = self.service.max_model_len
        tokenizer = self.service.tokenizer
        if (
            len(text) > limit
            and (longest := tokenizer.most_characters_per_token)
            and len(text) > limit * longest
        ):
            raise PromptTooLongError(
                f"The prompt has {len(text)} characters, more than max_model_len {limit} tokens can"
                " hold: shorten it."
            )
        token_ids = tokenizer.encode(text, add_special_tokens)
        if len(token_ids) >= limit:
            # The engine checks this too, but only after all prompts of a list are tokenized.
            raise PromptTooLongError(
                f"The prompt has {len(token_ids)} tokens, but max_model_len is {limit} and must"
                f" also hold one output token: shorten the prompt to {limit - 1} tokens."
            )
        return token_ids

    async def prepare_grammar(self, body: SamplingFields) -> None:
        """Prepare the grammar of a request, if it asks for one.

        Raises `InvalidSamplingParamsError` with the name of the client's field.
        """
        if (grammar := body.requested_grammar()) is not None:
            await self.prepare_requested(grammar)

    async def prepare_requested(self, grammar: RequestedGrammar) -> None:
        """Prepare a grammar. Raises `InvalidSamplingParamsError` with the client's name for it."""
        try:
            await self.service.prepare_grammar(grammar.params)
        except InvalidSamplingParamsError as error:
            raise grammar.with_clients_names(error) from None

    async def stream(
        self,
        request: Request,
        requests: list[NewRequest],
        pieces: Callable[[Generation], AsyncGenerator[bytes, None]],
        media_type: str,
    ) -> Response:
        """Stream what `pieces` makes of the outputs. Raise if the request fails early."""
        generation = await self.service.submit(requests, request.state.deadline)
        try:
            await generation.wait_for_first()
        except BaseException:
            generation.close()
            raise
        # Wait a second longer: at the deadline, the generation itself sends the client a reason.
        too_long = partial(
            asyncio.sleep, request.state.deadline + 1.0 - asyncio.get_running_loop().time()
        )
        return StreamedResponse(
            pieces(generation), media_type, until=too_long, on_end=generation.close
        )

    async def answer(self, request: Request, requests: list[NewRequest]) -> list[RequestOutput]:
        generation = await self.service.submit(requests, request.state.deadline)
        try:
            finished = {output.request_id: output async for output in generation if output.finished}
        finally:
            generation.close()
        outputs = [finished[one.request_id] for one in requests]
        TokenCount.of(outputs).note_in(request)
        return outputs

    async def respond(
        self, request: Request, requests: list[NewRequest], answer: Answer, *, stream: bool
    ) -> Response:
        if stream:
            return await self.stream(
                request,
                requests,
                lambda generation: sse.until_done(answer.events(generation, request)),
                sse.MEDIA_TYPE,
            )
        outputs = await self.answer(request, requests)

        def written() -> str:
            return answer.whole(outputs).model_dump_json()

        # Serializing log-probabilities can take a second, which would block other clients.
        num_values = _num_values(outputs)
        text = (
            written()
            if num_values < WRITTEN_AT_ONCE
            else await self.service.in_worker(num_values, written)
        )
        return Response(text, media_type="application/json")


def new_id(prefix: str) -> str:
    """Make an id for an answer and its requests in the engine.

    The id contains the HTTP request's id, for comparing logs and events. Clients may use an
    X-Request-Id twice, but requests with the same id would draw the same samples, so random digits
    follow.
    """
    return f"{prefix}-{REQUEST_ID.get()}-{secrets.token_hex(4)}"


def choose_answer_id(name: str, prefix: str, body: RequestFields) -> str:
    """Return the id for the client. The engine's id differs: clients may repeat theirs."""
    return name if body.request_id is None else f"{prefix}-{body.request_id}"


def num_characters(messages: list[dict[str, Any]]) -> int:
    """Return the approximate length of a prompt of messages and tools, in characters."""
    values = (value for message in messages for value in message.values())
    return sum(len(value if isinstance(value, str) else str(value)) for value in values)


def check_stream(body: RequestFields) -> None:
    """Raise `InvalidRequestError` for an option that does not fit `stream`."""
    if not body.stream and body.stream_options is not None:
        raise InvalidRequestError(
            "stream_options needs stream: set stream to true, or leave stream_options out."
        )
    if body.stream and body.prompt_logprobs is not None:
        raise InvalidRequestError(
            "prompt_logprobs cannot be streamed: set stream to false, or leave prompt_logprobs out."
        )


def served_name(options: ServerOptions, config: EngineConfig) -> str:
    """Return the model's name for clients. They must not learn where a local model is stored."""
    if options.served_model_name is not None:
        return options.served_model_name
    model = config.model
    return Path(model).name if Path(model).is_absolute() or model.startswith((".", "~")) else model


def _num_values(outputs: list[RequestOutput]) -> int:
    """Return the approximate number of tokens and log-probabilities in an answer.

    The prompt's log-probabilities count once, and again for each output, because of `echo`.
    """
    total = 0
    for output in outputs:
        judged = sum(map(len, filter(None, output.prompt_logprobs or ())))
        total += judged * (1 + len(output.outputs)) + sum(
            len(one.token_ids) for one in output.outputs
        )
        total += sum(len(values) for one in output.outputs for values in one.logprobs or ())
    return total
