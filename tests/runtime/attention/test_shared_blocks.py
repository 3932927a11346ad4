"""A shared block is never written: real tensors are checked while sequences share blocks."""

import torch
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import load_model
from minivllm.runtime.model_runner import ModelRunner
from minivllm.sampling_params import SamplingParams

PREFIX = list(range(10, 31))
REQUESTS = {
    "plain": (PREFIX, {}),
    "samples": ([*PREFIX, 40, 41], {"n": 3, "seed": 1}),
    "the same again": ([*PREFIX, 40, 41], {"n": 2, "seed": 2}),
    "beams": ([*PREFIX, 50], {"n": 4, "beam_width": 4, "ignore_eos": True}),
    "a crowd": (list(range(70, 79)), {"n": 4, "seed": 4}),
    "best of": ([60, 61, 62], {"n": 1, "best_of": 3, "seed": 3}),
}


class Watch:
    """Steps an engine and finds every changed byte in blocks with several owners."""

    def __init__(self, **options: object) -> None:
        config = EngineConfig(
            model="tiny-random", device="cpu", max_model_len=64, block_size=4, max_num_seqs=16,
            check_invariants=True, **options,
        )  # fmt: skip
        model = load_model(config)
        self.runner = ModelRunner(config, model)
        self.engine = LLMEngine(config, self.runner, model.tokenizer)
        self.num_watched = 0

    def owners(self) -> dict[int, frozenset[str]]:
        owners: dict[int, set[str]] = {}
        for seq_id, sequence in self.engine.inspect().sequences.items():
            for block_id in sequence.block_table:
                owners.setdefault(block_id, set()).add(seq_id)
        return {block_id: frozenset(names) for block_id, names in owners.items()}

    def step(self) -> None:
        caches = self.runner._attention.kv_caches
        before = {block_id: names for block_id, names in self.owners().items() if len(names) > 1}
        contents = {block_id: [cache[block_id].clone() for cache in caches] for block_id in before}
        self.engine.step()
        after = self.owners()
        for block_id, names in before.items():
            # Sequences that owned the block through the whole step, at least two: no write is
            # allowed.
            if len(names & after.get(block_id, frozenset())) > 1:
                self.num_watched += 1
                for cache, content in zip(caches, contents[block_id], strict=True):
                    assert torch.equal(cache[block_id], content), (
                        f"block {block_id} of {sorted(names)} was written"
                    )


def test_no_byte_of_a_block_with_several_owners_ever_changes():
    watch = Watch(num_gpu_blocks_override=36, max_num_batched_tokens=24)
    for request_id, (prompt, params) in REQUESTS.items():
        watch.engine.add_request(
            request_id, {"prompt_token_ids": prompt}, SamplingParams(max_tokens=14, **params)
        )
    while watch.engine.has_unfinished_requests():
        watch.step()
    assert watch.num_watched > 50
    counters = watch.engine.inspect().counters
    assert counters.copied_blocks > 5 and counters.num_preemptions > 0
