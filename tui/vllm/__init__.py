"""`minivllm attach --vllm`: a screen for a real vLLM server, from its metrics and KV events."""
