"""Gives names to parts of an engine for `minivllm bench step`: to methods and modules.

This module uses the engine's internals, so that the engine needs no code for measurements. Time
between nested parts counts for the part around them: `layers` gets the time between the decoder's
modules, and `step` that of the engine's loop. On a CPU, all layers are one call that has no parts
(`CpuLayers`), so a watched step runs them one operation at a time and takes longer. A method of
which the engine keeps a bound copy (the runner's `_forward`) cannot be watched.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

from minivllm.engine.engine import LLMEngine

MODEL_PARTS = {
    "embed": "token embeddings, and the angles of their positions",
    "norms": "RMS norms, and the residual sums before them",
    "qkv_proj": "linear layer: queries, keys and values",
    "rotary": "rotation of queries and keys; their shapes",
    "attention": "writes keys and values, reads contexts",
    "o_proj": "linear layer: output of attention",
    "gate_up_proj": "linear layer: gate and up",
    "silu": "SiLU of the gate, times up",
    "down_proj": "linear layer: down",
    "head": "logits of the rows that sample, last norm included",
    "layers": "the rest of the decoder",
}
OUTSIDE_PARTS = {
    "schedule": "tokens for each sequence, and their blocks",
    "prepare": "the batch as arrays and tensors",
    "sample": "the next token of each sequence",
    "detokenize": "its text",
    "outputs": "results for the callers",
    "step": "the rest of the step",
}
PARTS = MODEL_PARTS | OUTSIDE_PARTS
LINEAR_PARTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "head")
Watch = Callable[[str], AbstractContextManager]
"""Makes the context of a part, in which the part's code runs, from its name."""


class Stopwatch:
    """A `Watch` that counts seconds; costs half a microsecond per call.

    Time counts only for the innermost running part, so that the parts add up to the whole time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: list[str] = []
        self._since = 0.0
        self.seconds: dict[str, float] = {}
        """Part name -> seconds spent in the part."""

    def __call__(self, part: str) -> "Stopwatch":
        self._count()
        self._running.append(part)
        return self

    def __enter__(self) -> None:
        """The part has begun."""

    def __exit__(self, *error: object) -> None:
        self._count()
        self._running.pop()

    def _count(self) -> None:
        now = self._now()
        if self._running:
            part = self._running[-1]
            self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


@contextmanager
def watch_parts(engine: LLMEngine, watch: Watch) -> Iterator[None]:
    runner, output_processor = engine.core.runner.plain, engine.core.output_processor
    decoder = runner._model.decoder
    methods = [
        (engine, "step", "step"),
        (engine.core.scheduler, "schedule", "schedule"),
        # Outside the decoder, this builds the step's arrays and copies them to the device.
        (runner, "execute_model", "prepare"),
        (runner._attention, "forward", "attention"),
        (decoder.rotary, "cos_sin", "embed"),
        (decoder, "compute_logits", "head"),
        (runner, "sample_tokens", "sample"),
        (output_processor, "append", "detokenize"),
        (output_processor, "flush", "detokenize"),
        (output_processor, "make_output", "outputs"),
    ]
    modules = [(decoder, "layers"), (decoder.embed_tokens, "embed")]
    for layer in decoder.layers:
        attention, mlp = layer.self_attn, layer.mlp
        modules += [
            (layer.input_layernorm, "norms"), (layer.post_attention_layernorm, "norms"),
            # `rotary` and `silu` get the rest of `attention` and `mlp`, without the nested parts.
            (attention, "rotary"), (attention.qkv_proj, "qkv_proj"), (attention.o_proj, "o_proj"),
            (mlp, "silu"), (mlp.gate_up_proj, "gate_up_proj"), (mlp.down_proj, "down_proj"),
        ]  # fmt: skip
    methods += [(module, "forward", part) for module, part in modules]
    forward = runner._forward
    runner._forward = runner._forward_by_modules(runner._attention)
    for owner, name, part in methods:
        setattr(owner, name, _watched(getattr(owner, name), part, watch))
    try:
        yield
    finally:
        for owner, name, _ in methods:
            delattr(owner, name)  # makes the class's own method visible again
        runner._forward = forward


def _watched(method: Callable[..., Any], part: str, watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    def watched(*args: Any, **kwargs: Any) -> Any:
        with watch(part):
            return method(*args, **kwargs)

    return watched
