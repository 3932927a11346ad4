"""Serves a real model with vLLM, recorded and compared after every call.

python real_model.py CHECKPOINT WAY FILE        with a Python that has vLLM

WAY: in-step, run-ahead or drafts.
"""

import json
import os
import sys
from collections import deque

from vllm import LLM, SamplingParams

from minivllm.vllm.scheduler import RecordingScheduler, _RecordingAsyncScheduler

SIZES = {"block_size": 32, "num_gpu_blocks_override": 8, "max_num_seqs": 4, "max_model_len": 160,
         "max_num_batched_tokens": 64}  # fmt: skip
NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
RULES = "You are a careful clerk. " + "Repeat each word of the letter, one after the other. " * 6
LETTERS = "the ship is late", "one two three one two three", "rain and rain and rain", "yes"


def main(checkpoint: str, way: str, path: str) -> None:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "MINIVLLM_RECORD": path}
    more = {"speculative_config": NGRAM} if way == "drafts" else {}
    more["scheduler_cls"] = RecordingScheduler if way != "run-ahead" else _RecordingAsyncScheduler
    llm = LLM(checkpoint, dtype="float32", enforce_eager=True, **SIZES, **more)
    core = llm.llm_engine.engine_core.engine_core
    if way == "run-ahead":  # as with asynchronous scheduling, which vLLM turns off on a CPU
        core.batch_queue_size, core.batch_queue = 2, deque(maxlen=2)
        core.step_fn = core.step_with_batch_queue
    prompts = [f"{start}{letter}: {letter}" for start in ("", RULES) for letter in LETTERS]
    for some in (prompts, prompts[::-1]):  # the second time, all find a prefix
        stops = [None, ["ship"]] * 4
        params = [
            SamplingParams(temperature=0, max_tokens=20 + 3 * number, stop=stop)
            for number, stop in enumerate(stops)
        ]
        llm.generate(some, params, use_tqdm=False)
    core.scheduler.shutdown()
    tap = core.scheduler.tap
    failure = None if tap.failure is None else str(tap.failure)
    print(json.dumps({"num_checks": tap.writer.num_checks, "difference": failure}))


if __name__ == "__main__":
    main(*sys.argv[1:])
