"""Everything that computes: models, KV cache, attention, sampling, and reading model files.

Most of it needs torch, whose import takes a second. A room that starts without torch writes `from
minivllm import runtime`; the names below are imported on first use (`runtime.load_model`).
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "Explanation": "sampling.explanation", "KVCacheSpec": "kv_cache", "LoadedModel": "loader",
    "ModelRunner": "model_runner", "Tokenizer": "text.tokenizer", "load_model": "loader",
    "choose_device": "loader", "available_cpu_memory": "kv_cache",
    "load_cpu_ops": "cpu.load", "why_no_kernels": "cpu.load",
    "cost_of_no_kernels": "cpu.load",
    "recorded_trace": "attention.xray", "run_interpreted": "attention.xray",
    "trace_decode": "attention.xray", "TritonAttentionBackend": "attention.triton_backend",
    # Finding, reading and converting files, also without an engine.
    "ModelStore": "store.model_store", "TOY_WRITERS": "store.toys",
    "ChatTemplate": "text.chat_template", "all_entries": "checkpoint.weights",
    "check_checkpoint": "checkpoint.checkpoint", "convert_gguf": "checkpoint.gguf_conversion",
    "gguf_entries": "checkpoint.gguf", "read_gguf_header": "checkpoint.gguf",
    "write_float32_copy": "checkpoint.float32_copy",
})  # fmt: skip
