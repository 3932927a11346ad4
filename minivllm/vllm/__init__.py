"""A recorder for a real vLLM: its scheduler's decisions as minivllm's events.

    MINIVLLM_RECORD=run.jsonl vllm serve MODEL --scheduler-cls minivllm.vllm.RecordingScheduler
    minivllm attach run.jsonl

The scheduler is vLLM's own, with hooks on methods that change its state (`tap.py`). A thread writes
the events (`writer.py`). Their fold equals vLLM's state after every call (`verify.py`).
"""

from minivllm import lazy_names

# The only module that imports vLLM.
__getattr__ = lazy_names(__name__, {"RecordingScheduler": "scheduler"})
