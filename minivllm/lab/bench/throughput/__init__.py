"""`minivllm bench throughput`: output tokens per second, compared with transformers, vLLM and
llama.cpp in the same run.

A peer with its own Python environment runs as a child process in that environment. `peer_process`
is our side, and `peer_side/` is the child's side.
"""
