"""`EngineConfig`: every option of the engine, under vLLM's names.

Knows nothing of models or memory: sizes that depend on them (`max_model_len`, the number of blocks)
may be None here and are settled when the engine is built. Checked once, when it is made, so that a
typo costs a second and not a model load.

Source of names and defaults: vLLM `vllm/engine/arg_utils.py`, `vllm/config/`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from minivllm.errors import ConfigError

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
LoadFormat = Literal["auto", "dummy"]
SchedulingPolicy = Literal["fcfs", "priority"]
KVCacheAllocator = Literal["paged", "contiguous"]
Batching = Literal["continuous", "static", "sequential"]
AttentionBackendName = Literal[
    "auto",
    "torch",
    "cpu",
    "triton",
    "triton:naive",
    "triton:grouped",
    "triton:split",
    "triton:static",
    "triton:unified",
]
LinearBackendName = Literal["auto", "cpu", "onednn", "torch"]


CustomOp = Literal["all", "none", "rms_norm", "rotary_and_cache", "silu_and_mul"]


MAX_NUM_SEQS = 4096
"""Four times vLLM's default on its largest devices. Each slot costs a row of block ids as long as `max_model_len`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to build one engine. Every field has a default and is given by name; made once, it does not change.

    Raises `ConfigError`, in one sentence, for the first value that cannot be or that contradicts another.
    """

    model: str = "smollm2"
    """A Hugging Face id, a directory, a `.gguf` file, or an alias (`smollm2`, `tiny-random`)."""
    dtype: Dtype = "auto"
    """`auto`: float32 on a CPU, the checkpoint's own dtype on a GPU."""
    device: Device = "auto"
    """`auto`: the CUDA device if there is one, else the CPU."""
    load_format: LoadFormat = "auto"
    """`dummy`: seeded random weights in the shapes of the model's config, nothing read from its weights."""
    max_model_len: int | None = None
    """Most tokens (prompt + output) of one sequence; None takes the model's own limit."""
    seed: int = 0
    """Seeds the requests that bring no seed of their own."""

    block_size: int = 16
    """Tokens whose keys and values one KV cache block holds."""
    num_gpu_blocks_override: int | None = None
    """Exactly this many blocks, on any device; None sizes the cache from memory."""
    gpu_memory_utilization: float = 0.9
    """On CUDA: the part of the device's memory that weights, activations and KV cache may take."""
    kv_cache_memory_bytes: int | None = None
    """Bytes for the KV cache; None: 1 GiB on a CPU (less where less is free), profiled on CUDA."""
    enable_prefix_caching: bool | None = None
    """None: on, unless the allocator is contiguous. Once made, a configuration has True or False here."""

    max_num_seqs: int = 16
    """Most sequences running at once: the number of batch slots."""
    max_num_batched_tokens: int = 512
    """The token budget: most tokens in one step, over all sequences."""
    scheduling_policy: SchedulingPolicy = "fcfs"
    """`fcfs`: first come, first served, and the newest is preempted; `priority`: by each request's number, lower is sooner."""
    enable_chunked_prefill: bool = True
    """Off: a prompt goes through the model whole or not at all, as it did before chunks."""

    # What paging and continuous batching replaced: to be compared with, not to be used.
    kv_cache_allocator: KVCacheAllocator = "paged"
    """`contiguous`: each sequence reserves neighbouring blocks for `max_model_len` tokens."""
    batching: Batching = "continuous"
    """`static`: a batch runs until its slowest member has ended; `sequential`: one request at a time."""
    batch_delay: float = 0.0
    """Seconds that a request waits for company before it is admitted."""
    batch_size: int | None = None
    """With a `batch_delay`: admit at once when so many wait; None is `max_num_seqs`."""

    attention_backend: AttentionBackendName = "auto"
    """`auto`: triton on a CUDA device where it can run, on a CPU `cpu` where a C compiler is (or was), else torch. What follows `triton:` is a version of the attention
    kernels; `triton` alone is `triton:unified` on a CUDA device and `triton:split` where kernels are interpreted."""
    custom_ops: list[CustomOp] | None = None
    """The decoder's operations that run as kernels of ours, Triton's or the CPU's. None: all where the attention is triton on CUDA or
    cpu, else none."""
    linear_backend: LinearBackendName = "auto"
    """How linear layers multiply: on a CPU `cpu`, our kernel (float32, AVX-512, a C compiler), or `onednn`; everywhere `torch`.
    `auto`: the first of them that can run."""
    enforce_eager: bool = False
    """On: no CUDA graphs; every launch of a decode step is made from Python."""
    check_invariants: bool = False
    """Check every invariant of `minivllm.core.invariants` after each step (slow; for tests and demos)."""

    def __post_init__(self) -> None:
        for name, literal in (
            ("dtype", Dtype),
            ("device", Device),
            ("load_format", LoadFormat),
            ("scheduling_policy", SchedulingPolicy),
            ("kv_cache_allocator", KVCacheAllocator),
            ("batching", Batching),
            ("attention_backend", AttentionBackendName),
            ("linear_backend", LinearBackendName),
        ):
            if getattr(self, name) not in get_args(literal):
                choices = ", ".join(get_args(literal))
                raise ConfigError(f"{name} must be one of {choices}; got {getattr(self, name)!r}.")
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens"):
            self._require_positive(name)
        for name in ("max_model_len", "num_gpu_blocks_override", "kv_cache_memory_bytes", "batch_size"):
            if getattr(self, name) is not None:
                self._require_positive(name)
        utilization = self.gpu_memory_utilization
        if not isinstance(utilization, (int, float)) or not 0.0 < utilization <= 1.0:
            raise ConfigError(f"gpu_memory_utilization must be a number over 0 and at most 1; got {utilization!r}.")
        if self.max_num_seqs > MAX_NUM_SEQS:
            raise ConfigError(f"max_num_seqs must be at most {MAX_NUM_SEQS}; got {self.max_num_seqs}.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise ConfigError(f"seed must be a whole number; got {self.seed!r}.")
        if not isinstance(self.model, str) or not self.model:
            raise ConfigError(f"model must be a name or a path; got {self.model!r}.")
        is_paged = self.kv_cache_allocator == "paged"
        if self.enable_prefix_caching is None:
            object.__setattr__(self, "enable_prefix_caching", is_paged)  # frozen
        self._check_custom_ops()
        for name in ("enable_prefix_caching", "enable_chunked_prefill", "enforce_eager", "check_invariants"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        if self.enable_prefix_caching and not is_paged:
            raise ConfigError(
                "The contiguous allocator cannot share blocks: leave enable_prefix_caching out, or take "
                "kv_cache_allocator='paged'."
            )
        self._check_baselines()

    def _check_custom_ops(self) -> None:
        ops = self.custom_ops
        if ops is None:
            return
        choices = get_args(CustomOp)
        if not isinstance(ops, list) or not ops or any(op not in choices for op in ops):
            raise ConfigError(f"custom_ops must be a list of some of {', '.join(choices)}; got {ops!r}.")
        if len(ops) > 1 and ("all" in ops or "none" in ops):
            raise ConfigError(f"custom_ops 'all' and 'none' stand alone; got {', '.join(ops)}.")

    def _check_baselines(self) -> None:
        is_number = isinstance(self.batch_delay, (int, float)) and not isinstance(self.batch_delay, bool)
        if not is_number or not 0.0 <= self.batch_delay < 3600.0:
            raise ConfigError(f"batch_delay must be a number of seconds, from 0 to 3600; got {self.batch_delay!r}.")
        if self.batch_size is not None and not self.batch_delay:
            raise ConfigError("batch_size has no effect without a batch_delay: set that too, or leave it out.")
        if self.max_model_len is not None:
            self.check_whole_prompts_fit(self.max_model_len, self.max_num_batched_tokens)

    def check_whole_prompts_fit(self, max_model_len: int, max_num_batched_tokens: int) -> None:
        """Raises `ConfigError` if a prompt may be longer than a step and must not be cut.

        `max_model_len`, `max_num_batched_tokens`: in tokens, as the engine settles them.
        """
        if not self.enable_chunked_prefill and max_num_batched_tokens < max_model_len:
            raise ConfigError(
                f"With enable_chunked_prefill off a step must hold the longest prompt: raise max_num_batched_tokens "
                f"({max_num_batched_tokens}) to max_model_len ({max_model_len}), or lower max_model_len."
            )

    def _require_positive(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} must be a whole number, at least 1; got {value!r}.")
