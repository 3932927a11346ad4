"""The load of `minivllm bench serve`: random prompts from a seed, sent at their arrival times.

One request is sent before the clock starts, because the first also waits for a connection and for
kernel compilation. If it fails, nothing is measured.
"""

import asyncio
from argparse import Namespace
from contextlib import nullcontext
from random import Random
from time import perf_counter

from minivllm.errors import BenchError
from minivllm.lab.bench.serve.client import Timing, arrival_times, connect, first_model, send
from minivllm.lab.common.report import progress_bar

# Short, common words: each word is about one token in any tokenizer.
_WORDS = (
    "time year people way day man thing woman life child world school state family student group"
    " country problem hand part place case week company system program question work number night"
    " point home water room mother area money story fact month lot right study book eye job word"
    " business issue side kind head house service friend father power hour game line end member law"
    " car city name team minute idea body back parent face level office door health person art war"
    " history party result change morning reason research girl guy moment air teacher force"
    " education"
)
WORDS = tuple(_WORDS.split())


def make_prompts(number: int, num_words: int, seed: int) -> list[str]:
    """Return random prompts. Equal arguments give equal prompts.

    They start differently, so that there are hardly any prefix cache hits.
    """
    random = Random(f"prompts/{seed}")
    return [" ".join(random.choices(WORDS, k=num_words)) for _ in range(number)]


async def run_load(
    args: Namespace, base_url: str, api_key: str | None
) -> tuple[list[Timing], float, str]:
    """Send all requests; return their timings, the total seconds and the model's name."""
    prompts = make_prompts(args.num_prompts, args.random_input_len, args.seed)
    times = arrival_times(args.num_prompts, args.request_rate, args.seed)
    turns = asyncio.Semaphore(args.max_concurrency) if args.max_concurrency else nullcontext()
    async with connect(base_url, api_key) as client:
        model = args.model or await first_model(client)
        shared = {
            "model": model,
            "max_tokens": args.random_output_len,
            "temperature": args.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"ignore_eos": True} if args.ignore_eos else {}),
        }
        warm_up = await send(client, args.endpoint, {**shared, "prompt": "Hello there"})
        if warm_up.error is not None:
            raise BenchError(f"The first request failed, so nothing was measured: {warm_up.error}.")
        with progress_bar() as progress:
            task = progress.add_task("requests", total=args.num_prompts)
            started = perf_counter()

            async def one(prompt: str, at: float) -> Timing:
                await asyncio.sleep(started + at - perf_counter())
                async with turns:
                    timing = await send(client, args.endpoint, {**shared, "prompt": prompt})
                progress.update(task, advance=1, refresh=True)
                return timing

            timings = await asyncio.gather(
                *(one(prompt, at) for prompt, at in zip(prompts, times, strict=True))
            )
            return timings, perf_counter() - started, model
