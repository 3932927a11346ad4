"""`EngineConfig`: every option of the engine, under vLLM's names.

Knows nothing of models or memory: sizes that depend on them (`max_model_len`, the number of blocks)
may be None here and are settled when the engine is built. Checked once, when it is made, so that a
typo costs a second and not a model load.

Source of names and defaults: vLLM `vllm/engine/arg_utils.py`, `vllm/config/`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from msgspec import Meta

from minivllm.checks import Positive, check_fields
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
CustomOps = Annotated[
    list[CustomOp],
    Meta(min_length=1, description=f"a list of some of {', '.join(get_args(CustomOp))}"),
]


MAX_NUM_SEQS = 4096
"""Four times vLLM's default on its largest devices. Each slot costs a row of block ids as long as
`max_model_len`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to build one engine. Every field has a default and is given by name; made once, it does
    not change.

    Raises `ConfigError`, in one sentence, for the first value that cannot be or that contradicts
    another.
    """

    model: Annotated[str, Meta(min_length=1, description="a name or a path")] = "smollm2"
    """A Hugging Face id, a directory, a `.gguf` file, or an alias (`smollm2`, `tiny-random`)."""
    dtype: Dtype = "auto"
    """`auto`: float32 on a CPU, the checkpoint's own dtype on a GPU."""
    device: Device = "auto"
    """`auto`: the CUDA device if there is one, else the CPU."""
    load_format: LoadFormat = "auto"
    """`dummy`: seeded random weights in the shapes of the model's config, nothing read from its
    weights.
    """
    max_model_len: Positive | None = None
    """Most tokens (prompt + output) of one sequence; None takes the model's own limit."""
    seed: int = 0
    """Seeds the requests that bring no seed of their own."""

    block_size: Positive = 16
    """Tokens whose keys and values one KV cache block holds."""
    num_gpu_blocks_override: Positive | None = None
    """Exactly this many blocks, on any device; None sizes the cache from memory."""
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """On CUDA: the part of the device's memory that weights, activations and KV cache may take."""
    kv_cache_memory_bytes: Positive | None = None
    """Bytes for the KV cache; None: 1 GiB on a CPU (less where less is free), profiled on CUDA."""
    enable_prefix_caching: bool | None = None
    """None: on, unless the allocator is contiguous. Once made, a configuration has True or False
    here.
    """

    max_num_seqs: Annotated[int, Meta(ge=1, le=MAX_NUM_SEQS)] = 16
    """Most sequences running at once: the number of batch slots."""
    max_num_batched_tokens: Positive = 512
    """The token budget: most tokens in one step, over all sequences."""
    scheduling_policy: SchedulingPolicy = "fcfs"
    """`fcfs`: first come, first served, and the newest is preempted; `priority`: by each request's
    number, lower is sooner.
    """
    enable_chunked_prefill: bool = True
    """Off: a prompt goes through the model whole or not at all, as it did before chunks."""

    # What paging and continuous batching replaced: to be compared with, not to be used.
    kv_cache_allocator: KVCacheAllocator = "paged"
    """`contiguous`: each sequence reserves neighbouring blocks for `max_model_len` tokens."""
    batching: Batching = "continuous"
    """`static`: a batch runs until its slowest member has ended; `sequential`: one request at a
    time.
    """
    batch_delay: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Seconds that a request waits for company before it is admitted."""
    batch_size: Positive | None = None
    """With a `batch_delay`: admit at once when so many wait; None is `max_num_seqs`."""

    attention_backend: AttentionBackendName = "auto"
    """`auto`: triton on a CUDA device where it can run, on a CPU `cpu` where a C compiler is (or
    was), else torch. What follows `triton:` is a version of the attention kernels; `triton` alone
    is `triton:unified` on a CUDA device and `triton:split` where kernels are interpreted."""
    custom_ops: CustomOps | None = None
    """The decoder's operations that run as kernels of ours, Triton's or the CPU's. None: all where
    the attention is triton on CUDA or cpu, else none."""
    linear_backend: LinearBackendName = "auto"
    """How linear layers multiply: on a CPU `cpu`, our kernel (float32, AVX-512, a C compiler), or
    `onednn`; everywhere `torch`.
    `auto`: the first of them that can run."""
    enforce_eager: bool = False
    """On: no CUDA graphs; every launch of a decode step is made from Python."""
    check_invariants: bool = False
    """Check every invariant of `minivllm.core.invariants` after each step (slow; for tests and
    demos).
    """

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        is_paged = self.kv_cache_allocator == "paged"
        if self.enable_prefix_caching is None:
            object.__setattr__(self, "enable_prefix_caching", is_paged)  # frozen
        if self.enable_prefix_caching and not is_paged:
            raise ConfigError(
                "The contiguous allocator cannot share blocks: leave enable_prefix_caching out, or"
                " take kv_cache_allocator='paged'."
            )
        if len(self.custom_ops or ()) > 1 and {"all", "none"} & set(self.custom_ops):
            raise ConfigError(
                f"custom_ops 'all' and 'none' stand alone; got {', '.join(self.custom_ops)}."
            )
        if self.batch_size is not None and not self.batch_delay:
            raise ConfigError(
                "batch_size has no effect without a batch_delay: set that too, or leave it out."
            )
        if self.max_model_len is not None:
            self.check_whole_prompts_fit(self.max_model_len, self.max_num_batched_tokens)

    def check_whole_prompts_fit(self, max_model_len: int, max_num_batched_tokens: int) -> None:
        """Raises `ConfigError` if a prompt may be longer than a step and must not be cut.

        `max_model_len`, `max_num_batched_tokens`: in tokens, as the engine settles them.
        """
        if not self.enable_chunked_prefill and max_num_batched_tokens < max_model_len:
            raise ConfigError(
                "With enable_chunked_prefill off a step must hold the longest prompt: raise"
                f" max_num_batched_tokens ({max_num_batched_tokens}) to max_model_len"
                f" ({max_model_len}), or lower max_model_len."
            )
