"""Measurements that anyone can repeat: each module is one `minivllm bench` command."""
