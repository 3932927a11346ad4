"""Short names of configurations: `static+contiguous` becomes options of the engine."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from minivllm.errors import ConfigError

_LOOKUP = {"num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5}
Options = Mapping[str, object]


def _twice(value: int | None) -> int | None:
    return value and 2 * value


PARTS: Mapping[str, Options] = {
    "continuous": {"batching": "continuous"},
    "static": {"batching": "static"},
    "sequential": {"batching": "sequential"},
    "paged": {"kv_cache_allocator": "paged"},
    "contiguous": {"kv_cache_allocator": "contiguous"},
    "no-prefix-caching": {"enable_prefix_caching": False},
    "chunked": {"enable_chunked_prefill": True},
    "unchunked": {"enable_chunked_prefill": False},
    "kv-float32": {"kv_cache_dtype": "auto"},
    "kv-int8": {"kv_cache_dtype": "int8_per_token_head"},
    "evict": {"kv_transfer_config": None},
    "offload": {"kv_transfer_config": {"kv_connector": "SimpleCPUOffloadConnector"}},
    "plain": {"speculative_config": None},
    "ngram": {"speculative_config": {"method": "ngram", **_LOOKUP}},
    # Only a draft model of the same vocabulary can be right, so there is no default.
    "draft_model": {"speculative_config": None},
    # Visible next to a step's time, but short enough for a user: servers often have such a delay.
    "delay": {"batch_delay": 0.05},
    "slots-x2": {"max_num_seqs": _twice},
    # Memory is given in blocks (a race), or in bytes (`compare`).
    "blocks-x2": {"num_gpu_blocks_override": _twice, "kv_cache_memory_bytes": _twice},
}
"""Part of a name -> the options that it sets, or how it changes the trace's; others stay."""


class Configuration(NamedTuple):
    options: Options
    """Values for fields of `EngineConfig`."""

    def options_for(self, trace_options: Options) -> dict[str, object]:
        """Return the trace's options, with this configuration's options in place of equal names."""
        options = dict(trace_options)
        for name, value in self.options.items():
            options[name] = value(options.get(name)) if callable(value) else value
        if options.get("enable_chunked_prefill") is False:
            # A step must have room for the longest prompt.
            budget = "max_num_batched_tokens"
            options[budget] = max(options[budget], options["max_model_len"])
        return options


def parse_configuration(
    name: str, drafts: Any = None, parts: Mapping[str, Options] = PARTS
) -> Configuration:
    """Parse a name. Raises `ConfigError` for an unknown part or for parts that conflict.

    drafts: a `SpeculativeConfig`, which the part of its method (`ngram`, `draft_model`) stands for
    """
    options, chosen_by = dict[str, object](), dict[str, str]()
    for part in name.split("+"):
        if part not in parts:
            raise ConfigError(f"{name!r} has the unknown part {part!r}: use {', '.join(parts)}.")
        for option, value in parts[part].items():
            if option in options:
                raise ConfigError(f"{name!r}: {chosen_by[option]} and {part} exclude each other.")
            options[option], chosen_by[option] = value, part
    drafting = chosen_by.get("speculative_config")
    if drafts is not None and drafts.method == drafting:
        options["speculative_config"] = drafts
    elif drafting == "draft_model":
        raise ConfigError(
            f"{name!r} needs a draft model: use minivllm compare with --speculative-config"
            ' \'{"method": "draft_model", "model": NAME, "num_speculative_tokens": 4}\'.'
        )
    return Configuration(options)
