"""The clients of the soak test: many streams in one event loop, directly on sockets.

An HTTP library would need more processor time than the server under test. An answer counts as an
error unless it has status 200, all requested tokens and the end mark.
"""

import asyncio
import contextlib
import json
import random
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from soak_requests import SoakRequest, make_request

_TIMEOUT = 300.0


@dataclass
class Load:
    tokens: list[tuple[float, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def tokens_per_second(self, begin: float, end: float) -> float:
        return sum(count for when, count in self.tokens if begin <= when < end) / (end - begin)


async def stream_until(url: str, clients: int, end: float, load: Load) -> None:
    """Run `clients` clients until `time.monotonic()` is `end`; each sends request after request."""
    numbers = iter(range(1 << 40))

    draw = random.Random(1)

    async def client() -> None:
        connection = _Connection(url)
        while time.monotonic() < end:
            request = make_request(next(numbers))
            try:
                async with asyncio.timeout(_TIMEOUT):
                    answer = await connection.ask(request, keep=draw.random() < 0.5)
                _check(answer, request)
                load.tokens.append((time.monotonic(), request.num_output_tokens))
            except Exception as error:
                await connection.close()
                load.errors.append(f"{type(error).__name__}: {error}")
        await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))


async def disconnect(url: str, times: int, clients: int) -> None:
    """Send `times` requests, `clients` at once, and disconnect from each after a random time.

    Half of the requests ask for a stream.
    """
    draw = random.Random(0)
    numbers = iter(range(times))

    async def client() -> None:
        for number in numbers:
            connection = _Connection(url)
            reader, writer = await connection.open()
            writer.write(_head_and_body(url, make_request(number), stream=draw.random() < 0.5))
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(draw.choice([0.0, 0.01, 0.1, 0.5])):
                    await reader.read()
            if draw.random() < 0.5:
                # Half of the clients reset the connection in place of closing it.
                writer.transport.abort()
            await connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))


class _Connection:
    def __init__(self, url: str) -> None:
        self._url = url
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._open is None:
            address = urlsplit(self._url)
            self._open = await asyncio.open_connection(
                address.hostname, address.port, limit=1 << 22
            )
        return self._open

    async def ask(self, request: SoakRequest, keep: bool) -> bytes:
        reader, writer = await self.open()
        writer.write(_head_and_body(self._url, request, stream=True, keep=keep))
        answer = await reader.readuntil(b"\r\n\r\n")
        if keep and answer.startswith(b"HTTP/1.1 200 "):
            return answer + await reader.readuntil(b"\r\n0\r\n\r\n")
        if not keep:
            answer += await reader.read()
        await self.close()
        return answer

    async def close(self) -> None:
        if self._open is not None:
            _, writer = self._open
            self._open = None
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def _head_and_body(url: str, request: SoakRequest, stream: bool, keep: bool = False) -> bytes:
    path = "/v1/chat/completions" if request.is_chat else "/v1/completions"
    fields = {
        "max_tokens": request.max_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "n": request.n,
        "logprobs": request.logprobs,
    }
    fields |= {"messages": request.messages} if request.is_chat else {"prompt": request.prompt}
    if stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps(fields).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type:"
        f" application/json\r\nContent-Length: {len(body)}\r\nConnection:"
        f" {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    return head.encode() + body


def _check(answer: bytes, request: SoakRequest) -> None:
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ValueError(f"the answer begins with {answer[:300]!r}")
    if b"data: [DONE]\n\n" not in answer:
        raise ValueError(f"the stream is incomplete: it ends with {answer[-300:]!r}")
    if b'"completion_tokens":%d,' % request.num_output_tokens not in answer:
        raise ValueError(
            f"the answer does not have {request.num_output_tokens} tokens: it ends with"
            f" {answer[-600:]!r}"
        )
