"""`POST /tokenize`, `POST /detokenize`, `GET /tokenizer_info`: the model's tokenizer.

A token id outside the vocabulary is refused, because the tokenizer would silently skip it. A
mebibyte of text can be a million tokens, so the answer is serialized in a worker too.
"""

from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Response

from minivllm.errors import InvalidRequestError, TokenOutOfVocabularyError
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.http.json_body import JsonRoute
from minivllm.server.protocol.chat import plain_messages
from minivllm.server.protocol.other import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
    TokenizerInfoResponse,
)
from minivllm.server.service import EngineService
from minivllm.server.serving import Serving, num_characters

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute, responses=ERROR_RESPONSES)
    service = serving.service

    @routes.post("/tokenize", response_model=TokenizeResponse, response_model_exclude_none=True)
    async def tokenize(body: TokenizeRequest) -> Response:
        serving.check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequestError(
                "prompt and messages exclude each other: send exactly one of them."
            )
        messages = plain_messages(body.messages or [], service.tokenizer.template_knows_tools)
        size = num_characters(messages) + len(body.prompt or "")
        text = await service.in_worker(
            size, _tokenize, service, body, messages, renders_template=body.messages is not None
        )
        return Response(text, media_type="application/json")

    @routes.post("/detokenize", response_model=DetokenizeResponse)
    async def detokenize(body: DetokenizeRequest) -> Response:
        serving.check_model(body.model)
        _refuse_too_many(len(body.tokens), "tokens", service.max_model_len)
        text = await service.in_worker(len(body.tokens), _detokenize, service.tokenizer, body)
        return Response(text, media_type="application/json")

    @routes.get("/tokenizer_info")
    async def tokenizer_info() -> TokenizerInfoResponse:
        named = service.tokenizer.named_tokens
        return TokenizerInfoResponse(
            bos_token=named.get("bos_token"),
            eos_token=named.get("eos_token"),
            pad_token=named.get("pad_token"),
            vocab_size=service.tokenizer.vocab_size,
            max_model_len=service.max_model_len,
        )

    return routes


def _tokenize(
    service: EngineService, body: TokenizeRequest, messages: list[dict[str, Any]]
) -> bytes:
    tokenizer = service.tokenizer
    if messages:
        tokens = tokenizer.apply_chat_template(messages)
    else:
        tokens = tokenizer.encode(body.prompt, body.add_special_tokens is not False)
    answer: dict[str, Any] = {
        "count": len(tokens),
        "max_model_len": service.max_model_len,
        "tokens": tokens,
    }
    if body.return_token_strs:
        _refuse_too_many(len(tokens), "return_token_strs", service.max_model_len)
        answer["token_strs"] = [
            tokenizer.decode([token], skip_special_tokens=False) for token in tokens
        ]
    # For a million ids, `TokenizeResponse` would hold the GIL for an eighth of a second.
    return msgspec.json.encode(answer)


def _detokenize(tokenizer: "Tokenizer", body: DetokenizeRequest) -> bytes:
    if body.tokens and max(body.tokens) >= tokenizer.vocab_size:
        raise TokenOutOfVocabularyError(
            f"tokens contains {max(body.tokens)}, which is not a token id of this model: use 0 to"
            f" {tokenizer.vocab_size - 1}."
        )
    return (
        DetokenizeResponse(prompt=tokenizer.decode(body.tokens, False)).model_dump_json().encode()
    )


def _refuse_too_many(num_tokens: int, field: str, max_model_len: int) -> None:
    if num_tokens > max_model_len:
        raise InvalidRequestError(
            f"{field} is limited to max_model_len ({max_model_len}) tokens; got {num_tokens}: send"
            " less at once."
        )
