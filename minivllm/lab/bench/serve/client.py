"""Send one request to an OpenAI-compatible server and time its stream; compute arrival times.

As in vLLM's bench, the first token is the first message with a choice, even if its text is empty,
and a request lasts until the last message with a choice. A stream can break off, so a request
succeeds only with a finish reason.

Source: vLLM `vllm/benchmarks/lib/endpoint_request_func.py`, `vllm/benchmarks/serve.py`.
"""

import json
import math
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

import httpx2

from minivllm.errors import BenchError

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 600.0
"""Maximum time between two parts of a response."""
LONGEST_ERROR = 200


@dataclass(slots=True)
class Timing:
    started: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    ttft: float = 0.0
    itl: list[float] = field(default_factory=list)
    """Times between one message with a choice and the next."""
    latency: float = 0.0
    """Time until the last message with a choice."""
    error: str | None = None
    """The reason in one sentence, if the request failed."""

    @property
    def tpot(self) -> float | None:
        """Mean time per output token after the first token; None with fewer than two tokens."""
        return (
            (self.latency - self.ttft) / (self.output_tokens - 1)
            if self.output_tokens > 1
            else None
        )


def arrival_times(number: int, rate: float, seed: int) -> list[float]:
    """Return when to send each request: a Poisson process of `rate` requests per second.

    With an infinite rate, all times are 0. Otherwise the last time is exactly `number / rate`
    seconds, as in vLLM, so that the seed does not change the mean rate.
    """
    if math.isinf(rate):
        return [0.0] * number
    random = Random(f"arrivals/{seed}")
    times, now = [], 0.0
    for _ in range(number):
        now += random.expovariate(rate)
        times.append(now)
    return [time * number / rate / now for time in times]


def connect(base_url: str, api_key: str | None) -> httpx2.AsyncClient:
    """Create a client with unlimited connections: waiting for one would look like a slow server."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    timeout = httpx2.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    try:
        return httpx2.AsyncClient(
            base_url=base_url, headers=headers, timeout=timeout, limits=limits, trust_env=False
        )
    except httpx2.InvalidURL as error:
        raise BenchError(
            f"{base_url} is not the address of a server: write it like http://127.0.0.1:8000."
        ) from error


async def first_model(client: httpx2.AsyncClient) -> str:
    try:
        answer = await client.get("/v1/models")
        answer.raise_for_status()
        return answer.json()["data"][0]["id"]
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise BenchError(
            f"{client.base_url} does not answer ({error}): start a server there first."
        ) from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BenchError(f"{client.base_url} lists no model: set its name with --model.") from error


async def send(client: httpx2.AsyncClient, endpoint: str, body: dict[str, object]) -> Timing:
    """Send a request and read the response to its end. A failure is recorded in the result."""
    timing = Timing(perf_counter())
    try:
        async with client.stream("POST", endpoint, json=body) as answer:
            if answer.status_code != 200:
                text = (await answer.aread()).decode(errors="replace")
                timing.error = (
                    f"{answer.status_code} {answer.reason_phrase}: {text[:LONGEST_ERROR]}"
                )
            else:
                await _read(answer, timing)
    except httpx2.HTTPError as error:
        timing.error = f"{type(error).__name__}: {error}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        timing.error = f"the server's response is not a completion: {error}"
    return timing


async def _read(answer: httpx2.Response, timing: Timing) -> None:
    is_finished, last = False, timing.started
    async for line in answer.aiter_lines():
        # Skip comments, other fields of a message and the empty lines between messages.
        if not line.startswith("data:") or (data := line[5:].strip()) == "[DONE]":
            continue
        message = json.loads(data)
        if error := message.get("error"):
            raise ValueError(error.get("message", error) if isinstance(error, dict) else error)
        if choices := message.get("choices"):
            now = perf_counter()
            if last == timing.started:
                timing.ttft = now - timing.started
            else:
                timing.itl.append(now - last)
            last = now
            is_finished = is_finished or choices[0].get("finish_reason") is not None
        if usage := message.get("usage"):
            timing.prompt_tokens, timing.output_tokens = (
                usage["prompt_tokens"],
                usage["completion_tokens"],
            )
    timing.latency = last - timing.started
    if not is_finished:
        timing.error = "the answer ended without a finish_reason"
    elif timing.output_tokens == 0:
        timing.error = (
            "the server did not report how many tokens it sent (stream_options.include_usage)"
        )
