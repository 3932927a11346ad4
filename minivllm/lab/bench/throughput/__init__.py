"""`minivllm bench throughput`: output tokens per second, against transformers, vLLM and llama.cpp
in the same run.

Peers with an environment of their own run there as child processes: `peer_process` here,
`peer_side/` there.
"""
