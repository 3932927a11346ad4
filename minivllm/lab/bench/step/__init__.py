"""`minivllm bench step`: where each millisecond of a step goes."""
