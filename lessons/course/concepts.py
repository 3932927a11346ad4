"""What each lesson and each exercise teaches, and what it needs to have been taught before.

The terms are those of the texts, so `tests/lessons/test_concepts.py` can also find a lesson that
uses a term before the lesson that teaches it. Exercises are in the order in which to do them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Learned(NamedTuple):
    teaches: tuple[str, ...]
    needs: tuple[str, ...] = ()


LESSONS: Mapping[str, Learned] = MappingProxyType(
    {
        "what-serving-is": Learned(("weights", "engine", "device", "request", "step", "token")),
        "tokens": Learned(("tokenizer", "prefill", "decode"), ("token", "request", "step")),
        "kv-cache": Learned(("KV cache", "key", "value"), ("token", "step")),
        "naive-serving": Learned(
            (
                "slot",
                "contiguous",
                "internal fragmentation",
                "external fragmentation",
                "head-of-line blocking",
            ),
            ("KV cache", "request"),
        ),
        "block-tables": Learned(
            ("block", "block table", "slot mapping", "free queue"), ("KV cache", "slot")
        ),
        "batching": Learned(
            ("batch", "static batching", "continuous batching"), ("request", "step")
        ),
        "one-pass": Learned(
            ("padding", "flattened", "positions", "query_start_loc"),
            ("batch", "block table", "slot mapping", "key", "value"),
        ),
        "token-budget": Learned(
            ("token budget", "chunked prefill"),
            ("continuous batching", "prefill", "decode"),
        ),
        "prefix-sharing": Learned(
            ("prefix", "hash", "ref_cnt", "evicted"),
            ("block table", "free queue", "prefill"),
        ),
        "copy-on-write": Learned(("samples", "copy-on-write", "beam search"), ("ref_cnt", "hash")),
        "preemption": Learned(
            ("preempted", "victim", "tail latency"), ("token budget", "prefix", "free queue")
        ),
        "sampling": Learned(
            ("top-k", "top-p", "min-p"),
            ("batch", "samples", "preempted"),
        ),
        "serving": Learned(("TTFT", "ITL", "gauge"), ("preempted", "prefill", "decode")),
        "bytes": Learned(
            ("bandwidth", "scale", "quant", "int8"), ("weights", "KV cache", "preempted", "decode")
        ),
        "speculation": Learned(
            ("draft", "prompt lookup", "roll-back"), ("bandwidth", "token budget", "block table")
        ),
        "grammar": Learned(("grammar", "mask", "automaton", "forced"), ("token", "draft")),
        "way-to-vllm": Learned(
            ("gpu_memory_utilization",), ("TTFT", "prefix", "draft", "grammar", "block table")
        ),
        "paged-attention": Learned(
            ("tile", "online softmax"), ("block table", "slot mapping", "flattened")
        ),
        "kernel-ladder": Learned(
            ("arithmetic intensity", "split"), ("online softmax", "bandwidth", "batch")
        ),
    }
)
"""By lesson name, in the order of the course."""

EXERCISES: Mapping[str, Learned] = MappingProxyType(
    {
        "kv-cache": Learned((), ("KV cache", "key", "value")),
        "block-table": Learned((), ("block", "block table")),
        "slot-mapping": Learned((), ("slot mapping", "block table")),
        "engine-loop": Learned((), ("batch", "continuous batching")),
        "continuous-batching": Learned((), ("static batching", "continuous batching")),
        "flattened-batch": Learned(
            (), ("flattened", "positions", "query_start_loc", "slot mapping")
        ),
        "chunked-prefill": Learned((), ("chunked prefill", "token budget")),
        "lru": Learned((), ("free queue", "evicted", "hash")),
        "block-pool": Learned((), ("ref_cnt", "free queue", "hash", "evicted")),
        "hash-chain": Learned((), ("hash", "prefix", "block table")),
        "bug-cold-start": Learned((), ("free queue", "evicted", "prefix")),
        "bug-same-words": Learned((), ("hash", "prefix")),
        "bug-shared-prompt": Learned((), ("ref_cnt", "prefix")),
        "copy-on-write": Learned((), ("copy-on-write", "samples", "ref_cnt")),
        "bug-three-stories": Learned((), ("copy-on-write", "samples")),
        "preemption": Learned((), ("preempted", "victim", "token budget")),
        "bug-back-again": Learned((), ("preempted", "token budget")),
        "bug-early-word": Learned((), ("preempted", "token budget")),
        "bug-last-in-line": Learned((), ("preempted", "victim")),
        "token-budget": Learned((), ("chunked prefill", "token budget", "preempted", "victim")),
        "metrics": Learned((), ("TTFT", "ITL")),
        "roofline": Learned((), ("bandwidth",)),
        "few-bits": Learned((), ("scale", "quant", "int8")),
        "verify-drafts": Learned((), ("draft", "roll-back", "block table")),
        "token-mask": Learned((), ("automaton", "mask", "token")),
        "triton-warmup": Learned((), ("tile",)),
        "split-kv": Learned(("log-sum-exp",), ("online softmax", "split")),
        "paged-attention": Learned((), ("log-sum-exp", "slot mapping", "flattened")),
        "paged-attention-triton": Learned((), ("online softmax", "tile", "block table")),
        "waste": Learned((), ("internal fragmentation", "ref_cnt", "prefix")),
        "top-p": Learned((), ("top-p", "samples")),
        "stop-strings": Learned((), ("token", "TTFT")),
        "own-policy": Learned((), ("TTFT", "tail latency", "preempted", "victim", "token budget")),
    }
)
"""By exercise name, in the order of `info.toml`: the main track, kernels, electives."""
