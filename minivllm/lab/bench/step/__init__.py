"""`minivllm bench step`: shows where each millisecond of a step goes."""
