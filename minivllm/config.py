"""`EngineConfig`: every option of the engine, under vLLM's name where vLLM has the option.

Everything that does not depend on the model is checked here, so a typo is found before a model is
loaded. Options that depend on the model or the memory (`max_model_len`, the number of blocks) may
be None; the engine computes them when it is built.

Source of names and defaults: vLLM `vllm/engine/arg_utils.py`, `vllm/config/`.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Literal, Self, get_args

from msgspec import Meta

from minivllm.checks import Positive, check_fields
from minivllm.errors import ConfigError

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
KVCacheDtype = Literal["auto", "bfloat16", "int8_per_token_head", "int8"]
Device = Literal["auto", "cpu", "cuda"]
LoadFormat = Literal["auto", "dummy"]
Quantization = Literal["int8"]
SchedulingPolicy = Literal["fcfs", "priority"]
KVCacheAllocator = Literal["paged", "contiguous"]
Batching = Literal["continuous", "static", "sequential"]
AttentionBackendName = Literal[
    "auto", "torch", "cpu", "triton", "triton:naive", "triton:grouped", "triton:split",
    "triton:static", "triton:unified",
]  # fmt: skip
LinearBackendName = Literal["auto", "cpu", "torch"]
SpeculativeMethod = Literal["ngram", "draft_model"]

CustomOp = Literal["all", "none", "fused_moe", "rms_norm", "rotary_and_cache", "silu_and_mul"]
CustomOps = Annotated[
    list[CustomOp],
    Meta(min_length=1, description=f"a list of names from {', '.join(get_args(CustomOp))}"),
]


SCALE_BYTES = 4
"""An int8 KV cache has a float32 scale for each token and head."""


def stored_head_bytes(kv_cache_dtype: str, head_size: int) -> int:
    """Bytes of one token's key (or value) of one head, its scale included.

    kv_cache_dtype: a type by name, not `auto`
    """
    if kv_cache_dtype == "int8_per_token_head":
        return head_size + SCALE_BYTES
    return head_size * {"float32": 4, "bfloat16": 2, "float16": 2}[kv_cache_dtype]


MAX_NUM_SEQS = 4096
"""Upper limit of `max_num_seqs`: four times vLLM's default on the largest devices.

For each slot, there is a row of block ids, long enough for `max_model_len` tokens.
"""


class NestedConfig:
    """The option named `option`: a mapping of fields, or a JSON object on the command line."""

    def __post_init__(self) -> None:
        check_fields(self, ConfigError, f"{self.option}: ")

    @classmethod
    def of(cls, given: object) -> Self:
        """Read a mapping of fields, or a JSON object. Raises `ConfigError` if it has other fields."""
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError) as error:
                what = f"{cls.option} must be a JSON object ({error}); got {given!r:.100}."
                raise ConfigError(what) from None
        names = {item.name: item.default is MISSING is item.default_factory for item in fields(cls)}
        needed = [name for name, is_needed in names.items() if is_needed]
        others = [name for name, is_needed in names.items() if not is_needed]
        if not isinstance(given, Mapping) or not {*needed} <= given.keys() <= {*needed, *others}:
            must = f"must have the fields {' and '.join(needed)}, and " if needed else ""
            may = f"may have {', '.join(others)}; got {given!r:.100}."
            raise ConfigError(f"{cls.option} {must}{may}")
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeConfig(NestedConfig):
    """Speculative decoding: how a sequence's next tokens are drafted, so that one step of the model
    can verify several.

    In float32 with our CPU kernels, drafts change a token only if two tokens' scores tie to about 3e-5;
    elsewhere, logits that nearly tie may swap. Raises `ConfigError` for an invalid value.
    """

    option = "speculative_config"
    method: SpeculativeMethod
    """`ngram`: repeat what followed the last tokens when they occurred before (prompt lookup).
    `draft_model`: a smaller model with the same vocabulary drafts.
    """
    num_speculative_tokens: Positive
    """Maximum number of tokens that are drafted for a sequence in one step, at most `block_size`.
    """
    model: Annotated[str, Meta(min_length=1, description="a name or a path")] | None = None
    """The draft model, for `draft_model`."""
    prompt_lookup_max: Positive | None = None
    """`ngram`: the longest run of last tokens to look up. None: `prompt_lookup_min`, or 5."""
    prompt_lookup_min: Positive | None = None
    """`ngram`: the shortest run of last tokens to look up. None: `prompt_lookup_max`."""

    def __post_init__(self) -> None:
        NestedConfig.__post_init__(self)
        drafts = self.method == "draft_model"
        if drafts != (self.model is not None):
            raise ConfigError(
                "speculative_config: the method draft_model needs a model, for example"
                ' {"method": "draft_model", "model": "smollm2", "num_speculative_tokens": 4}.'
                if drafts
                else "speculative_config: the method ngram uses no model; leave model out."
            )
        longest = self.prompt_lookup_max or self.prompt_lookup_min
        shortest = self.prompt_lookup_min or self.prompt_lookup_max
        if drafts and longest is not None:
            raise ConfigError(
                "speculative_config: prompt_lookup_max and prompt_lookup_min belong to the method"
                " ngram; leave both out."
            )
        if longest is not None and shortest > longest:
            raise ConfigError(
                f"speculative_config: prompt_lookup_min ({shortest}) must be at most"
                f" prompt_lookup_max ({longest})."
            )
        if not drafts:
            object.__setattr__(self, "prompt_lookup_max", longest or 5)  # frozen
            object.__setattr__(self, "prompt_lookup_min", shortest or 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTransferConfig(NestedConfig):
    """A second memory for keys and values. Raises `ConfigError` for an invalid value."""

    option = "kv_transfer_config"
    kv_connector: Literal["SimpleCPUOffloadConnector", "NixlConnector"]
    """Blocks in the host's memory (`kv_transfer.host_tier`), or in another engine (`.producer`)."""
    kv_role: Literal["kv_both", "kv_producer", "kv_consumer"] = "kv_both"
    """`NixlConnector`: `kv_producer` computes prompts, `kv_consumer` loads their blocks."""
    kv_connector_extra_config: dict[str, object] = field(default_factory=dict)
    """The connector's own options, which it checks when the engine is built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to build one engine. All fields have defaults, are passed by name, and never change.

    Raises `ConfigError` for the first value that is invalid or contradicts another value.
    """

    model: Annotated[str, Meta(min_length=1, description="a name or a path")] = "smollm2"
    """A Hugging Face id, a directory, a `.gguf` file, or an alias (`smollm2`, `house`, ...)."""
    dtype: Dtype = "auto"
    """Type that the model computes in. `auto`: float32 on a CPU, the checkpoint's dtype on a GPU.
    In float32 on a CPU, weights keep the checkpoint's format in memory (bfloat16, Q4_1, ...).
    In bfloat16 on a CPU, only matrix products are; the rest is float32.
    """
    device: Device = "auto"
    """`auto`: the CUDA device if there is one, else the CPU."""
    load_format: LoadFormat = "auto"
    """`dummy`: use random weights (seeded by `seed`) and read no weight files."""
    quantization: Quantization | None = None
    """`int8`: round each row of every matrix to 8 bits with one scale, while loading; only for
    checkpoints that are not quantized already. None: as the checkpoint stores them.
    """
    max_model_len: Positive | None = None
    """Maximum number of tokens in a sequence, prompt plus output. None: the model's own limit."""
    seed: int = 0
    """Seed for requests without a seed of their own, and for `dummy` weights."""

    block_size: Positive = 16
    """Tokens per KV cache block."""
    num_gpu_blocks_override: Positive | None = None
    """Exact number of KV cache blocks, on any device. None: as many as fit in the memory."""
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] = 0.9
    """CUDA only: fraction of the device's memory for weights, activations and KV cache."""
    kv_cache_memory_bytes: Positive | None = None
    """Size of the KV cache in bytes. None: on a CPU, 1 GiB, but at most half of the free memory and
    what `max_num_seqs` sequences can fill; on CUDA, the memory that a profiling run leaves free.
    """
    kv_cache_dtype: KVCacheDtype = "auto"
    """Type of the stored keys and values. `auto`: the model's dtype. `bfloat16`: two bytes per
    number. `int8_per_token_head`, or `int8` for short: one byte per number, and a float32 scale for
    each token and head. Both change numbers slightly, so they can change tokens.
    """
    enable_prefix_caching: bool | None = None
    """Whether to reuse cached blocks of equal prompt prefixes. None: True for the paged allocator,
    False for the contiguous allocator.
    """

    max_num_seqs: Annotated[int, Meta(ge=1, le=MAX_NUM_SEQS)] = 16
    """Maximum number of sequences that run at once: the number of batch slots."""
    max_num_batched_tokens: Positive = 512
    """The token budget: the maximum number of tokens in one step, over all sequences."""
    scheduling_policy: SchedulingPolicy = "fcfs"
    """`fcfs`: first come, first served; the newest sequence is preempted. `priority`: requests with
    a lower `priority` number are first.
    """
    enable_chunked_prefill: bool = True
    """Split long prompts into chunks. Off: each prompt is computed in a single step."""

    speculative_config: SpeculativeConfig | None = None
    """Draft tokens and verify several in one step: a `SpeculativeConfig` or a dict of its fields,
    such as `{"method": "ngram", "num_speculative_tokens": 4}`. None: one token per step and
    sequence.
    """

    kv_transfer_config: KVTransferConfig | None = None
    """Keep evicted blocks in a second memory, or get a prompt's blocks from another engine: a
    `KVTransferConfig` or a dict, such as `{"kv_connector": "SimpleCPUOffloadConnector"}`.
    """

    # Baselines: the methods that paging and continuous batching replaced. For comparisons only.
    kv_cache_allocator: KVCacheAllocator = "paged"
    """`contiguous`: each sequence reserves neighbouring blocks for `max_model_len` tokens."""
    batching: Batching = "continuous"
    """`static`: a batch runs until all its requests have ended. `sequential`: one by one."""
    batch_delay: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """How long a request may be held back so that others can join its batch, in seconds."""
    batch_size: Positive | None = None
    """With a `batch_delay`: start the batch early once this many sequences have arrived. None:
    `max_num_seqs`.
    """

    attention_backend: AttentionBackendName = "auto"
    """`auto`: `triton` on a CUDA device if Triton can run there; `cpu` on a CPU, if
    linear layers run as `cpu` and the kernels support the head size; else `torch`. The part after
    `triton:` is a version of the attention kernels. `triton` alone means `triton:unified` on CUDA,
    and `triton:split` where kernels are interpreted.
    """
    custom_ops: CustomOps | None = None
    """Which operations of the decoder run as custom kernels (of Triton or the CPU). None: all if
    attention runs as `triton` on CUDA or as `cpu`, else none.
    """
    linear_backend: LinearBackendName = "auto"
    """How linear layers multiply. `cpu`: our CPU kernel (needs AVX2 or NEON, and a C compiler).
    `torch`: any device. `auto`: `cpu`, or else `torch`.
    """
    enforce_eager: bool = False
    """Use no CUDA graphs: Python launches every kernel of a decode step."""
    check_invariants: bool = False
    """Check all rules of `minivllm.core.invariants` after each step. Slow; for tests and demos."""
    explain_tokens: bool = False
    """Emit why each token of each sequence was chosen (event `token.explained`)."""

    def __post_init__(self) -> None:
        for cls in (SpeculativeConfig, KVTransferConfig):
            if not isinstance(given := getattr(self, cls.option), cls | None):
                object.__setattr__(self, cls.option, cls.of(given))  # frozen
        check_fields(self, ConfigError)
        if self.kv_cache_dtype == "int8":
            object.__setattr__(self, "kv_cache_dtype", "int8_per_token_head")
        is_paged = self.kv_cache_allocator == "paged"
        if self.enable_prefix_caching is None:
            object.__setattr__(self, "enable_prefix_caching", is_paged)
        if self.enable_prefix_caching and not is_paged:
            raise ConfigError(
                "The contiguous allocator cannot share blocks: leave enable_prefix_caching out, or"
                " use kv_cache_allocator='paged'."
            )
        if self.kv_transfer_config is not None and not self.enable_prefix_caching:
            raise ConfigError(
                "kv_transfer_config finds blocks by their hashes: leave enable_prefix_caching on."
            )
        if len(self.custom_ops or ()) > 1 and {"all", "none"} & set(self.custom_ops):
            raise ConfigError(
                "custom_ops 'all' and 'none' cannot be combined with other names; got"
                f" {', '.join(self.custom_ops)}."
            )
        if self.batch_size is not None and not self.batch_delay:
            raise ConfigError(
                "batch_size has no effect without batch_delay: set batch_delay too, or leave"
                " batch_size out."
            )
        speculative = self.speculative_config
        if speculative is not None and speculative.num_speculative_tokens > self.block_size:
            raise ConfigError(
                "speculative_config: num_speculative_tokens can be at most block_size"
                f" ({self.block_size}), so that drafts need at most one more block; got"
                f" {speculative.num_speculative_tokens}."
            )
        if self.max_model_len is not None:
            self.check_whole_prompts_fit(self.max_model_len, self.max_num_batched_tokens)

    def check_whole_prompts_fit(self, max_model_len: int, max_num_batched_tokens: int) -> None:
        """Raise `ConfigError` if chunked prefill is off and a prompt may not fit in one step.

        `max_model_len`, `max_num_batched_tokens`: the engine's final values, in tokens.
        """
        if not self.enable_chunked_prefill and max_num_batched_tokens < max_model_len:
            raise ConfigError(
                "With enable_chunked_prefill off, one step must hold the longest prompt: raise"
                f" max_num_batched_tokens ({max_num_batched_tokens}) to max_model_len"
                f" ({max_model_len}), or lower max_model_len."
            )
