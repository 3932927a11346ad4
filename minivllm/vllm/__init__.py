"""A recorder for a real vLLM: its scheduler's decisions as minivllm's events.

    MINIVLLM_RECORD=run.jsonl vllm serve MODEL --scheduler-cls minivllm.vllm.RecordingScheduler
    minivllm attach run.jsonl

The scheduler is vLLM's own, with hooks on methods that change its state (`tap.py`). A thread writes
the events (`writer.py`). Their fold equals vLLM's state after every call (`verify.py`).
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "RecordingScheduler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from minivllm.vllm.scheduler import RecordingScheduler  # the only module that imports vLLM

    return RecordingScheduler
