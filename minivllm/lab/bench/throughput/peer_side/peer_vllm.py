"""vLLM's offline `LLM` with its own defaults, on CPU or GPU, for `--vs vllm`.

vLLM's workers get as many threads as our engine; by default vLLM reserves one core for its
scheduler. Environment variables are set before the import, at which vLLM reads them.
"""

import os
from functools import partial

PACKAGES = ("vllm", "torch")
KV_CACHE_GIB = 1


class Engine:
    def __init__(self, settings: dict) -> None:
        cores = sorted(os.sched_getaffinity(0))[: settings["num_threads"]]
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cores)))
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(KV_CACHE_GIB))
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        from vllm import LLM, SamplingParams  # late: it reads the variables above

        self._params = partial(SamplingParams, temperature=0, ignore_eos=True, detokenize=True)
        self._llm = LLM(
            model=settings["model"],
            dtype=settings["dtype"],
            max_num_seqs=settings["max_num_seqs"],
            max_model_len=settings["max_model_len"],
            enable_prefix_caching=settings.get("enable_prefix_caching", True),
            speculative_config=settings.get("speculative_config"),
            disable_log_stats=True,
        )

    def generate(self, prompts: list[list[int]], max_tokens: list[int]) -> list[list[int]]:
        params = [self._params(max_tokens=n) for n in max_tokens]
        outputs = self._llm.generate(
            [{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False
        )
        return [list(output.outputs[0].token_ids) for output in outputs]
