"""Command-line options made from the fields of `EngineConfig` and `SamplingParams`.

The field `max_num_seqs` becomes `--max-num-seqs`, as in vLLM, with the field's type, choices and
default. An option that is not given sets no attribute, so that a command can have its own defaults
(for example, a demo's scenario).
"""

import argparse
import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from minivllm.config import EngineConfig, SpeculativeConfig
from minivllm.sampling_params import SamplingParams

ENGINE_HELP = {
    "model": "alias (smollm2, house), checkpoint directory, .gguf file or Hugging Face id",
    "dtype": "type of the computation; auto: float32 on a CPU, the checkpoint's own on a GPU",
    "device": "where the model runs; auto: a GPU if there is one",
    "load_format": "dummy: random weights in the shapes of the model's config, to measure speed",
    "quantization": "int8: round the weights to 8 bits while loading them (changes texts a little)",
    "max_model_len": "maximum number of tokens of one sequence, prompt and output together",
    "seed": "seed for requests without their own seed",
    "block_size": "tokens per KV cache block",
    "num_gpu_blocks_override": "number of KV cache blocks",
    "gpu_memory_utilization": "on a GPU: fraction of its memory for weights, activations and cache",
    "kv_cache_memory_bytes": "bytes for the KV cache",
    "kv_cache_dtype": (
        "type of stored keys and values; auto: the model's; bfloat16: half of float32's memory, and"
        " int8 (int8_per_token_head) about a quarter, for slightly different numbers"
    ),
    "enable_chunked_prefill": "split long prompts into chunks that share steps with requests",
    "kv_cache_allocator": (
        "how KV cache is allocated; contiguous is a baseline, which paging replaced"
    ),
    "batching": ("when waiting requests join the batch; static and sequential are baselines"),
    "batch_delay": "seconds that a request waits for others to batch with, as in older servers",
    "batch_size": "with --batch-delay: admit at once when this many requests wait",
    "enable_prefix_caching": ("let requests with a common prefix share its blocks"),
    "max_num_seqs": "maximum number of running sequences: the number of batch slots",
    "max_num_batched_tokens": "the token budget: most tokens in one step, over all sequences",
    "scheduling_policy": (
        "order of waiting requests and of preemption: first come, first served (fcfs) or by"
        " priority"
    ),
    "speculative_config": (
        "draft tokens and verify several in one step; in float32 with minivllm's CPU kernels, this"
        " changes no token unless two tokens' scores tie to about 3e-5, elsewhere logits that"
        " nearly tie may give another one; for example"
        ' \'{"method": "ngram", "num_speculative_tokens": 4}\''
    ),
    "attention_backend": (
        "how attention is computed; auto: triton on a GPU, minivllm's kernels on a CPU with a C"
        " compiler, else torch"
    ),
    "custom_ops": (
        "run this decoder operation as a fused kernel of minivllm; may be given several times"
    ),
    "linear_backend": (
        "how linear layers multiply on a CPU; auto: minivllm's kernels if the processor has"
        " AVX2, else oneDNN, else torch"
    ),
    "enforce_eager": "on a GPU: no CUDA graphs",
    "check_invariants": "check the consistency of memory and schedule after every step (slower)",
    "explain_tokens": "record why each token was chosen, for the dashboard (slower)",
}
DEFAULT_IN_WORDS = {
    "max_model_len": "the model's own limit",
    "enable_prefix_caching": "on, unless the allocator is contiguous",
    "batch_size": "the number of batch slots",
    "custom_ops": "all with the attention backends cpu and (on a GPU) triton, else none",
    "num_gpu_blocks_override": "as many as fit into memory",
    "kv_cache_memory_bytes": "1 GiB on a CPU, the remaining memory on a GPU",
}
"""Field -> what its default of None means, for the help."""
SAMPLING_HELP = {
    "n": "number of texts: samples that share the prompt's blocks, or the best beams",
    "best_of": "draw this many samples and keep the most probable",
    "use_beam_search": "search for the most probable texts with -n beams",
    "beam_width": "search for the most probable texts with this many beams",
    "length_penalty": "beams: above 0 favours long texts, below 0 short ones",
    "early_stopping": (
        "beams: end when there are enough texts (true), or when a better one is unlikely (false)"
        " or impossible (never)"
    ),
    "max_tokens": "maximum number of output tokens",
    "min_tokens": "minimum number of output tokens",
    "temperature": "0 takes the most likely token; higher is more varied",
    "top_p": "sample from the most likely tokens whose probabilities add up to this",
    "top_k": "sample from this many of the most likely tokens; 0: from all",
    "min_p": "exclude tokens less likely than this fraction of the most likely token's probability",
    "repetition_penalty": "above 1: tokens of prompt and output become less likely",
    "presence_penalty": "subtracted once from the logit of each token in the output",
    "frequency_penalty": "subtracted from a token's logit for each time that it is in the output",
    "stop": "end at this string; may be given several times",
    "stop_token_ids": "end at this token id; may be given several times",
    "include_stop_str_in_output": "keep the stop string in the output",
    "ignore_eos": "do not end at the model's end-of-sequence token",
    "logprobs": (
        "print the probability of each token and of this many most likely alternatives (--json:"
        " log-probabilities)"
    ),
}
NOT_OPTIONS = frozenset(
    {
        "seed",
        "logit_bias",
        "prompt_logprobs",
        "skip_special_tokens",
        "structured_outputs",
        "output_kind",
    }
)
"""Fields of `SamplingParams` without an option. `--seed` is an option of the engine, and `generate`
has options for `structured_outputs`.
"""


def add_engine_options(
    parser: argparse.ArgumentParser, defaults: Mapping[str, object] | None = None
) -> None:
    """Add all options of `EngineConfig`. The help shows `defaults` in place of the fields'."""
    fields = {field.name: ENGINE_HELP[field.name] for field in dataclasses.fields(EngineConfig)}
    _add_fields(parser.add_argument_group("engine"), EngineConfig, fields, defaults or {})


def engine_config(
    args: argparse.Namespace, defaults: Mapping[str, object] | None = None
) -> EngineConfig:
    """A typed option wins over `defaults`, and `defaults` over those of the class."""
    return EngineConfig(**(defaults or {}) | _given(args, EngineConfig))


SEVERAL_TEXTS = frozenset(
    {"n", "best_of", "use_beam_search", "beam_width", "length_penalty", "early_stopping"}
)
"""Fields for several outputs per prompt. A command with a single output leaves them out."""


def add_sampling_options(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, object] | None = None,
    leave_out: frozenset[str] = frozenset(),
) -> None:
    """Add the options of `SamplingParams` except `leave_out`. The help shows `defaults`."""
    without = NOT_OPTIONS | leave_out
    names = [
        field.name for field in dataclasses.fields(SamplingParams) if field.name not in without
    ]
    fields = {name: SAMPLING_HELP[name] for name in names}
    _add_fields(parser.add_argument_group("sampling"), SamplingParams, fields, defaults or {})


def sampling_params(
    args: argparse.Namespace, defaults: Mapping[str, object] | None = None
) -> SamplingParams:
    """A typed option wins over `defaults`, and `defaults` over those of the class."""
    given = _given(args, SamplingParams)
    given.pop("seed", None)
    return SamplingParams(**(defaults or {}) | given)


def _given(args: argparse.Namespace, cls: type) -> dict[str, Any]:
    return {
        field.name: getattr(args, field.name)
        for field in dataclasses.fields(cls)
        if hasattr(args, field.name)
    }


def _add_fields(
    group: argparse._ArgumentGroup,
    cls: type,
    fields: Mapping[str, str],
    defaults: Mapping[str, object],
) -> None:
    hints = get_type_hints(cls)
    own = {field.name: field.default for field in dataclasses.fields(cls)}
    for name, help_ in fields.items():
        default = defaults.get(name, own[name])
        if isinstance(default, bool):
            shown = "on" if default else "off"
        else:
            shown = DEFAULT_IN_WORDS.get(name) if default is None else default
        if shown not in (None, dataclasses.MISSING):
            help_ = f"{help_} (default: {shown})"
        flags = [f"--{name.replace('_', '-')}", *([f"-{name}"] if len(name) == 1 else [])]
        # argparse interprets percent signs in help texts.
        group.add_argument(
            *flags, default=argparse.SUPPRESS, help=help_.replace("%", "%%"), **_kind(hints[name])
        )


def _kind(hint: Any) -> dict[str, Any]:
    if get_origin(hint) in (Union, UnionType):
        hint, *words = (arm for arm in get_args(hint) if arm is not NoneType)
        if words:  # True, False, or one of these words
            return _bool_or_word(*words)
    if hint is SpeculativeConfig:
        return {"action": ReadSpeculativeConfig, "metavar": "JSON"}
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    if get_origin(hint) is list:
        return {"action": "append", **_kind(*get_args(hint))}
    return {"type": hint, "metavar": {int: "N", float: "X", str: "TEXT"}[hint]}


def _bool_or_word(words: Any) -> dict[str, Any]:
    values = {"true": True, "false": False} | {word: word for word in get_args(words)}

    def read(text: str) -> bool | str:
        if text not in values:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(values)}; got {text!r}")
        return values[text]

    return {"type": read, "metavar": "{" + ",".join(values) + "}"}


class ReadSpeculativeConfig(argparse.Action):
    """Parses a JSON object.

    It raises `ConfigError`, which `main` prints as one line. argparse would print the usage before
    the error of a `type`.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, SpeculativeConfig.from_json(values))


def seconds(text: str) -> float:
    """Parse a time in seconds from 0 to an hour, as an argparse type."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 3600.0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, at least 0; got {text!r}")
    return value
