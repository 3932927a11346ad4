"""Repeatable measurements; each module is one `minivllm bench` command.

The names below need torch, and are imported on first use: `bench --help` imports every command.
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "IN_A_ROW": "kernels.rows", "measure_kernels": "kernels.rows",
    "measure_machine_speed": "step.machine", "waiting_clock": "step.machine",
    "write_trace": "step.trace", "TransformersPeer": "throughput.transformers_peer",
    "INT8": "throughput.weights_gguf", "formats_of": "throughput.weights_gguf",
    "own_gguf": "throughput.weights_gguf", "write_gguf": "throughput.weights_gguf",
    "write_stored_copy": "throughput.weights_gguf",
})  # fmt: skip
