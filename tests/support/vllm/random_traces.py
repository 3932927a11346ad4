"""Random traces for twin runs: preemption, prefix hits, chunks, samples, priorities, aborts."""

from random import Random

from minivllm.lab.twin.trace import TwinRequest, TwinTrace


def random_trace(seed: int) -> TwinTrace:
    rng = Random(f"twin/{seed}")

    def tokens(number: int) -> list[int]:
        return [rng.randrange(100, 120) for _ in range(number)]

    block_size, policy = rng.choice([4, 16]), rng.choice(["fcfs", "fcfs", "priority"])
    prefixes = [tokens(rng.randint(0, 100)) for _ in range(3)]
    requests, step = [], 0
    for number in range(rng.randint(5, 40)):
        step += rng.choice([0, 0, 1, 2, 5, 12])
        prompt = rng.choice(prefixes) + tokens(rng.randint(1, 60))
        priority = rng.randint(0, 3) if policy == "priority" else 0
        for sample in range(rng.choice([1, 1, 1, 3])):  # as vLLM has them: requests of their own
            output = tokens(rng.randint(1, 60))
            aborted = step + rng.randint(0, 50) if rng.random() < 0.1 else None
            name = f"r{number}{'abc'[sample]}"
            requests.append(TwinRequest(name, prompt, output, step, priority, aborted))
    num_blocks = rng.randint(60, 110) if block_size == 4 else rng.randint(17, 40)
    options = {
        "block_size": block_size, "max_num_seqs": rng.randint(2, 8),
        "max_num_batched_tokens": rng.choice([16, 32, 64, 128]), "max_model_len": 256,
        "scheduling_policy": policy, "enable_prefix_caching": rng.random() < 0.8,
    }  # fmt: skip
    return TwinTrace(num_blocks, options, requests)
