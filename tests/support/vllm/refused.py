"""Starts vLLM's scheduler with what the recorder refuses, and serves a request with it.

It prints one line of JSON for each: what the log says, and how many tokens the request got.
"""

import json
import os
import sys
from unittest.mock import patch

import vllm

from minivllm.lab.twin.simulated import SimulatedVllm
from minivllm.vllm import scheduler as recorder

REFUSED = "pipeline_parallel_size", "is_encoder_decoder", "multimodal_config", "num_spec_tokens"


def serve(**options: object) -> None:
    lines, tokens = [], []
    recorder._log.setLevel("INFO")
    recorder._log.handle = lambda record: lines.append(record.getMessage())
    options |= {"num_blocks": 40, "block_size": 16, "max_model_len": 256, "max_num_seqs": 4}
    sample = lambda *_: tokens.append(7) or [7]  # noqa: E731
    engine = SimulatedVllm(sample, max_num_batched_tokens=64, **options)
    engine.add("r", [7] * 40, max_tokens=5, ignore_eos=True)
    while engine.is_busy:
        engine.step()
    engine.scheduler.shutdown()
    print(json.dumps({"said": lines, "num_tokens": len(tokens)}), flush=True)


def main() -> None:
    os.environ["MINIVLLM_RECORD"] = sys.argv[1]
    problem = recorder._problem
    for name in REFUSED:

        def of_changed(scheduler: recorder.RecordingScheduler, name: str = name) -> str | None:
            config = scheduler.vllm_config
            owners = {REFUSED[0]: config.parallel_config, REFUSED[-1]: scheduler}
            with patch.dict(vars(owners.get(name, config.model_config)), {name: 2}):
                return problem(scheduler)

        with patch.object(recorder, "_problem", of_changed):
            serve(is_async=True)
    for limit in ("2GB", "-1"):
        with patch.dict(os.environ, MINIVLLM_RECORD_LIMIT=limit):
            serve()
    with patch.object(vllm, "__version__", "0.99.0"):
        serve()
        assert not os.path.exists(sys.argv[1])
        with patch.object(vllm, "__version__", "0.33.0.post1"):
            serve()
        os.environ["MINIVLLM_RECORD_ANY_VERSION"] = "1"
        serve()


if __name__ == "__main__":
    main()
