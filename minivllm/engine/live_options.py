"""Options that may change between steps: the token budget and the number of sequences.

The values at the start are upper limits, since they set the size of buffers, CUDA graphs and the
batch. A change must never block an admitted request for ever: `max_num_seqs` must leave room for
all sequences of each request, and with chunked prefill off, the longest prompt must fit in one
step. A lower `max_num_seqs` preempts no sequence.
"""

from typing import get_args

from minivllm.config import EngineConfig
from minivllm.core.scheduler import Scheduler
from minivllm.errors import ConfigError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus


def change_option(
    scheduler: Scheduler,
    config: EngineConfig,
    max_model_len: int,
    bus: EventBus,
    name: ev.LiveOption,
    value: int,
) -> None:
    """Set `name` to `value` from the next step on. Raise `ConfigError` before any change."""
    options = get_args(ev.LiveOption)
    if name not in options:
        raise ConfigError(
            f"{name!r} cannot be changed while the engine runs: change one of {', '.join(options)}."
        )
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a whole number, at least 1; got {value!r}.")
    most = getattr(config, name)
    if value > most:
        raise ConfigError(
            f"{name} can be at most {most}, the value that the engine was created with; got"
            f" {value}."
        )
    match name:
        case "max_num_batched_tokens":
            config.check_whole_prompts_fit(max_model_len, value)
            old, scheduler.max_num_batched_tokens = scheduler.max_num_batched_tokens, value
        case "max_num_seqs":
            _check_nobody_stands_still(scheduler, value)
            old, scheduler.slots.limit = scheduler.slots.limit, value
    if old != value and bus.active:
        bus.emit(ev.OptionChanged, name, value, old)


def _check_nobody_stands_still(scheduler: Scheduler, max_num_seqs: int) -> None:
    widest = max(
        scheduler.requests.values(), key=lambda request: request.params.num_sequences, default=None
    )
    if widest is not None and widest.params.num_sequences > max_num_seqs:
        raise ConfigError(
            f"max_num_seqs cannot be lowered to {max_num_seqs} now: request {widest.request_id!r}"
            f" runs {widest.params.num_sequences} sequences at once; wait until it ends, or abort"
            " it."
        )
