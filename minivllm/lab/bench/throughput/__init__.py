"""`minivllm bench throughput`: output tokens per second, compared with transformers, vLLM and
llama.cpp in the same run.

A peer with its own environment runs there as a child process: `peer_process` is our side,
`peer_side/` the other.
"""
