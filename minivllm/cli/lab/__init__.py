"""The commands that measure and compare: `bench`, `compare`, `simulate` and `to-vllm`."""
