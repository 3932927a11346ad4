"""Code that runs in a peer's own Python, which has no minivllm: only the standard library."""
