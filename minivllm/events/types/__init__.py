"""The kinds of events: one small struct for each kind of decision.

Folding all events of a run in order gives the exact state of the engine (`fold.py`; tests compare
the result with `engine.inspect()` after every step). So an event says what *changed* and why, and
has no data that can be derived. `seq` is also the order of the changes.

In JSON, an event is one object: the tag `ev`, the envelope (`seq`, `step`, `t`), and its own
fields. All kinds are flat, except `kernel.traced`, `token.explained`, `tokens.named` and the
sampling parameters of `request.arrived`. `rule` names the function that emits the kind, so that a
dashboard can show the function's source. `rule` is not part of the JSON.
"""

from typing import Union

from minivllm.events.types.blocks import *  # noqa: F403
from minivllm.events.types.drafts import *  # noqa: F403
from minivllm.events.types.envelope import *  # noqa: F403
from minivllm.events.types.envelope import Event
from minivllm.events.types.explanations import *  # noqa: F403
from minivllm.events.types.grammars import *  # noqa: F403
from minivllm.events.types.kernels import *  # noqa: F403
from minivllm.events.types.requests import *  # noqa: F403
from minivllm.events.types.steps import *  # noqa: F403
from minivllm.events.types.transfers import *  # noqa: F403

EVENT_KINDS: tuple[type[Event], ...] = tuple(Event.__subclasses__())
AnyEvent = Union[EVENT_KINDS]  # noqa: UP007 - made of a tuple
"""What msgspec decodes: the tag `ev` says which kind an object is."""
