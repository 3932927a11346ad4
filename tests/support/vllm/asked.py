"""A real vLLM that records, and answers each line of its standard input with 100 tokens.

    python asked.py CHECKPOINT OPTIONS          with a Python that has vLLM; OPTIONS: JSON

It prints "ready", and for each answer how many tokens it has. If a line is a number, no file of
vLLM's processes can grow beyond that size.
"""

import json
import sys

import psutil
from vllm import LLM, SamplingParams


def main(checkpoint: str, options: str) -> None:
    fixed = {"load_format": "dummy", "enforce_eager": True}
    fixed["scheduler_cls"] = "minivllm.vllm.RecordingScheduler"
    llm = LLM(checkpoint, **fixed, **json.loads(options))
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip().isdecimal():
            for process in psutil.Process().children(recursive=True):
                process.rlimit(psutil.RLIMIT_FSIZE, (int(line), int(line)))
        params = SamplingParams(max_tokens=100, ignore_eos=True)
        (answer,) = llm.generate(line, params, use_tqdm=False)
        print(len(answer.outputs[0].token_ids), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
