"""Repeatable measurements; each module is one `minivllm bench` command."""
