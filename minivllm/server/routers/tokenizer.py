"""`POST /tokenize`, `POST /detokenize`, `GET /tokenizer_info`: the model's tokenizer, for clients that count or cut.

The easy thing to get wrong: an id outside of the vocabulary. The tokenizer would leave it out without a word, and the
client would take the text for that of its ids.
"""

from fastapi import APIRouter

from minivllm.errors import InvalidRequestError, TokenOutOfVocabularyError
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.json_body import JsonRoute
from minivllm.server.protocol.other import (
    DetokenizeRequest,
    DetokenizeResponse,
    TokenizeRequest,
    TokenizeResponse,
    TokenizerInfoResponse,
)
from minivllm.server.serving import Serving


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute, responses=ERROR_RESPONSES)
    service, tokenizer = serving.service, serving.service.tokenizer

    def text_of_each(tokens: list[int]) -> list[str]:
        return [tokenizer.decode([token], skip_special_tokens=False) for token in tokens]

    @routes.post("/tokenize", response_model_exclude_none=True)
    async def tokenize(body: TokenizeRequest) -> TokenizeResponse:
        serving.check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequestError("prompt and messages: send one of the two.")
        if body.messages is not None:
            messages = [message.plain() for message in body.messages]
            tokens = await service.in_worker(tokenizer.apply_chat_template, messages)
        else:
            special = body.add_special_tokens is not False
            tokens = await service.in_worker(tokenizer.encode, body.prompt, special)
        texts = await service.in_worker(text_of_each, tokens) if body.return_token_strs else None
        return TokenizeResponse(
            count=len(tokens),
            max_model_len=service.max_model_len,
            tokens=tokens,
            token_strs=texts,
        )

    @routes.post("/detokenize")
    async def detokenize(body: DetokenizeRequest) -> DetokenizeResponse:
        serving.check_model(body.model)
        if body.tokens and max(body.tokens) >= tokenizer.vocab_size:
            raise TokenOutOfVocabularyError(
                f"tokens holds {max(body.tokens)}, which is no token id of this model: use 0 to {tokenizer.vocab_size - 1}."
            )
        return DetokenizeResponse(prompt=await service.in_worker(tokenizer.decode, body.tokens, False))

    @routes.get("/tokenizer_info")
    async def tokenizer_info() -> TokenizerInfoResponse:
        named = tokenizer.named_tokens
        return TokenizerInfoResponse(
            bos_token=named.get("bos_token"),
            eos_token=named.get("eos_token"),
            pad_token=named.get("pad_token"),
            vocab_size=tokenizer.vocab_size,
            max_model_len=service.max_model_len,
        )

    return routes
