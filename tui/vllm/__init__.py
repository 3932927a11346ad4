"""`minivllm attach --vllm`: a screen for a real vLLM, drawn from its metrics and KV events."""
