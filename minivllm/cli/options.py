"""Command-line options made from the fields of `EngineConfig` and `SamplingParams`.

A field `max_num_seqs` becomes `--max-num-seqs`, vLLM's spelling, with its type, choices and
default. Only help texts are written here. An option that is not given leaves no attribute, so a
command can have its own defaults (a demo's scenario, for example).
"""

import argparse
import dataclasses
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from minivllm.config import EngineConfig
from minivllm.sampling_params import SamplingParams

ENGINE_HELP = {
    "model": "alias (smollm2, tiny-random), checkpoint directory, .gguf file or Hugging Face id",
    "dtype": "type of weights and KV cache; auto: float32 on a CPU, the checkpoint's own on a GPU",
    "device": "where the model runs; auto: the GPU if there is one",
    "load_format": "dummy: random weights in the shapes of the model's config, for tests of speed",
    "max_model_len": "most tokens, prompt and output, of one sequence",
    "seed": "seeds every request that has no seed of its own",
    "block_size": "tokens in one KV cache block",
    "num_gpu_blocks_override": "exactly this many KV cache blocks",
    "gpu_memory_utilization": "on a GPU: part of its memory for weights, activations and KV cache",
    "kv_cache_memory_bytes": "bytes for the KV cache",
    "enable_chunked_prefill": "cut long prompts into chunks that share a step with the others",
    "kv_cache_allocator": (
        "how KV cache is given out; contiguous is what paging replaced, to compare with"
    ),
    "batching": (
        "who is let into the batch, and when; static and sequential are there to compare with"
    ),
    "batch_delay": "seconds that a request waits for company, as in older servers",
    "batch_size": "with a batch delay: let requests in at once when so many wait",
    "enable_prefix_caching": (
        "let requests that begin alike share the blocks of what they have in common"
    ),
    "max_num_seqs": "most sequences running at once: the number of batch slots",
    "max_num_batched_tokens": "the token budget: most tokens in one step, over all sequences",
    "scheduling_policy": "who waits and who is preempted: fcfs (the newest) or priority",
    "attention_backend": (
        "how attention is computed; auto: triton on a GPU, our kernels on a CPU where there is a C"
        " compiler, else torch"
    ),
    "custom_ops": (
        "run this operation of the decoder as a fused kernel of ours; may be given several times"
    ),
    "linear_backend": (
        "how linear layers multiply on a CPU; auto: our kernels where the processor has AVX-512,"
        " else oneDNN, else torch"
    ),
    "enforce_eager": "on a GPU: no CUDA graphs",
    "check_invariants": "check after every step that memory and schedule are consistent (slower)",
}
DEFAULT_IN_WORDS = {
    "max_model_len": "the model's own limit",
    "enable_prefix_caching": "on, unless the allocator is contiguous",
    "batch_size": "the number of batch slots",
    "custom_ops": "all with the backends triton on a GPU and cpu, else none",
    "num_gpu_blocks_override": "as many as fit into memory",
    "kv_cache_memory_bytes": "1 GiB on a CPU, what the rest leaves over on a GPU",
}
"""Help texts for defaults of None."""
SAMPLING_HELP = {
    "n": "how many texts: samples that share the blocks of the prompt, or the best beams",
    "best_of": "draw this many samples and keep the most probable",
    "use_beam_search": "search for the most probable texts with -n beams",
    "beam_width": "search for the most probable texts with this many beams",
    "length_penalty": "beams: over 0 favours long texts, under 0 short ones",
    "early_stopping": (
        "beams: end with enough texts (true), when no better is likely (false) or possible (never)"
    ),
    "max_tokens": "at most this many output tokens",
    "min_tokens": "no end before this many output tokens",
    "temperature": "0 takes the most likely token; higher is more varied",
    "top_p": "sample from the most likely tokens that together have this probability",
    "top_k": "sample from this many of the most likely tokens; 0 takes all",
    "min_p": "leave out tokens less likely than this part of the most likely one",
    "repetition_penalty": "over 1: tokens of prompt and output become less likely",
    "presence_penalty": "subtracted once from the logit of each token that is in the output",
    "frequency_penalty": "subtracted from a token's logit once for each time it is in the output",
    "stop": "end at this string; may be given several times",
    "stop_token_ids": "end at this token id; may be given several times",
    "include_stop_str_in_output": "keep the stop string in the output",
    "ignore_eos": "do not end at the model's end-of-sequence token",
    "logprobs": (
        "print the probability of each token and of this many most likely ones in its place"
        " (--json: log-probabilities)"
    ),
}
NOT_OPTIONS = frozenset(
    {"seed", "logit_bias", "prompt_logprobs", "skip_special_tokens", "output_kind"}
)
"""Fields of `SamplingParams` without an option; `--seed` is the engine's, which seeds requests."""


def add_engine_options(
    parser: argparse.ArgumentParser, defaults: Mapping[str, object] | None = None
) -> None:
    """Add all options of `EngineConfig`; the help shows `defaults` instead of its own."""
    fields = {field.name: ENGINE_HELP[field.name] for field in dataclasses.fields(EngineConfig)}
    _add_fields(parser.add_argument_group("engine"), EngineConfig, fields, defaults or {})


def engine_config(
    args: argparse.Namespace, defaults: Mapping[str, object] | None = None
) -> EngineConfig:
    """Build the configuration: typed options first, then `defaults`, then `EngineConfig`'s own."""
    return EngineConfig(**(defaults or {}) | _given(args, EngineConfig))


SEVERAL_TEXTS = frozenset(
    {"n", "best_of", "use_beam_search", "beam_width", "length_penalty", "early_stopping"}
)
"""Fields for several outputs per prompt, not useful where there is only one."""


def add_sampling_options(
    parser: argparse.ArgumentParser,
    defaults: Mapping[str, object] | None = None,
    leave_out: frozenset[str] = frozenset(),
) -> None:
    """Add the options of `SamplingParams` except `leave_out`; the help shows `defaults`."""
    without = NOT_OPTIONS | leave_out
    names = [
        field.name for field in dataclasses.fields(SamplingParams) if field.name not in without
    ]
    fields = {name: SAMPLING_HELP[name] for name in names}
    _add_fields(parser.add_argument_group("sampling"), SamplingParams, fields, defaults or {})


def sampling_params(
    args: argparse.Namespace, defaults: Mapping[str, object] | None = None
) -> SamplingParams:
    """Build the parameters: typed options first, then `defaults`, then `SamplingParams`' own."""
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
    """Return the argparse arguments for a value of type `hint`."""
    if get_origin(hint) in (Union, UnionType):
        hint, *words = (arm for arm in get_args(hint) if arm is not NoneType)
        if words:  # True, False, or one of these words
            return _bool_or_word(*words)
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


def seconds(text: str) -> float:
    """Parse a time in seconds from 0 to an hour, as an argparse type."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 3600.0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more; got {text!r}")
    return value
