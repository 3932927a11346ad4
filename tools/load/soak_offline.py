"""Runs the soak test's requests on the offline engine, with the same number of requests at once.

It prints output tokens per second as JSON. As a separate process, it starts with the same caches,
memory and threads as the server.
"""

import json
import sys
import time

from soak_requests import make_request

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.sampling_params import RequestOutputKind, SamplingParams


def main() -> None:
    """Arguments: engine options as JSON, number of concurrent requests, seconds of warm-up,
    seconds of measurement.
    """
    options, clients, warm_up, seconds = json.loads(sys.argv[1]), *map(float, sys.argv[2:5])
    engine = LLMEngine.from_config(EngineConfig(**options))
    lengths: dict[str, int] = {}

    def add() -> None:
        number = len(lengths)
        request = make_request(number)
        lengths[str(number)] = request.num_output_tokens
        params = SamplingParams(
            n=request.n,
            temperature=0,
            max_tokens=request.max_tokens,
            logprobs=request.logprobs,
            ignore_eos=True,
            output_kind=RequestOutputKind.DELTA,
        )
        prompt = (
            engine.tokenizer.apply_chat_template(request.messages)
            if request.is_chat
            else request.prompt
        )
        engine.add_request(
            str(number), prompt if isinstance(prompt, str) else {"prompt_token_ids": prompt}, params
        )

    for _ in range(int(clients)):
        add()
    begin = time.monotonic() + warm_up
    tokens = 0
    while (now := time.monotonic()) < begin + seconds:
        for output in engine.step():
            if output.finished:
                tokens += lengths[output.request_id] if now >= begin else 0
                add()
    print(json.dumps({"tokens_per_second": tokens / seconds}))


if __name__ == "__main__":
    main()
