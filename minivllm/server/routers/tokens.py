"""`POST /tokenize`, `POST /detokenize`, `GET /tokenizer_info`: the model's tokenizer.

A token id outside the vocabulary is refused, because the tokenizer would silently skip it. A
mebibyte of text can be a million tokens, so the answer is serialized in a worker too.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from minivllm.errors import InvalidRequestError, TokenOutOfVocabularyError
from minivllm.server.http.routes import JsonRoute
from minivllm.server.protocol.chat import TokenizeRequest, num_characters, plain_messages
from minivllm.server.protocol.requests import DetokenizeRequest
from minivllm.server.service import EngineService


def routes(service: EngineService) -> list[Route]:
    tokenizer, limit = service.tokenizer, service.max_model_len

    async def tokenize(body: TokenizeRequest, request: Request) -> Response:
        """Convert a text or a conversation to token ids."""
        service.check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequestError("prompt and messages exclude each other: send one of them.")
        messages = plain_messages(body.messages or [], tokenizer.template_knows_tools)
        size = num_characters(messages) + len(body.prompt or "")
        text = await service.in_worker(size, _tokenize, body, messages)
        return Response(text, media_type="application/json")

    def _tokenize(body: TokenizeRequest, messages: list[dict[str, Any]]) -> bytes:
        if messages:
            tokens = tokenizer.apply_chat_template(messages)
        else:
            tokens = tokenizer.encode(body.prompt, body.add_special_tokens is not False)
        answer: dict[str, Any] = {"count": len(tokens), "max_model_len": limit, "tokens": tokens}
        if body.return_token_strs:
            answer["token_strs"] = [tokenizer.decode([token], False) for token in tokens]
        return msgspec.json.encode(answer)

    async def detokenize(body: DetokenizeRequest, request: Request) -> Response:
        """Convert token ids to a text."""
        service.check_model(body.model)
        tokens = body.tokens
        if len(tokens) > limit:  # one token can be a hundred spaces
            raise InvalidRequestError(
                f"tokens is limited to max_model_len ({limit}) tokens; got {len(tokens)}: send less"
                " at once."
            )
        if tokens and max(tokens) >= tokenizer.vocab_size:
            raise TokenOutOfVocabularyError(
                f"tokens contains {max(tokens)}, which is not a token id of this model: use 0 to"
                f" {tokenizer.vocab_size - 1}."
            )
        text = await service.in_worker(len(tokens), tokenizer.decode, tokens, False)
        return JSONResponse({"prompt": text})

    async def tokenizer_info(request: Request) -> Response:
        """The tokenizer's data, for clients that count tokens."""
        names = ("bos_token", "eos_token", "pad_token")
        info = {name: tokenizer.named_tokens.get(name) for name in names}
        return JSONResponse(info | {"vocab_size": tokenizer.vocab_size, "max_model_len": limit})

    return [
        JsonRoute("/tokenize", tokenize, TokenizeRequest),
        JsonRoute("/detokenize", detokenize, DetokenizeRequest),
        Route("/tokenizer_info", tokenizer_info),
    ]
