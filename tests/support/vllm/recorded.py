"""What a recording of vLLM begins with."""

from minivllm.events import types as ev

HEADER = ev.LogHeader(
    version=2, engine="0", source="vLLM 0.32.0", model="m", clock="monotonic", wall=9.0, mono=0.0,
    num_blocks=8, reserved_blocks=1, block_size=4, max_num_seqs=4, max_num_batched_tokens=16,
    max_model_len=32, scheduling_policy="fcfs", enable_prefix_caching=True,
)  # fmt: skip
