"""`KVEventsConfig`: the value of `--kv-events-config`, in vLLM's JSON, and its publisher.

Unknown options are refused: if `endpoint` is misspelt, events must not go to the default address.
Importing this module does not import ZeroMQ.

Source: vLLM `vllm/config/kv_events.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from minivllm.errors import ConfigError

if TYPE_CHECKING:
    from minivllm.server.feeds.kv_publisher import KVEventPublisher

_Count = Annotated[int, msgspec.Meta(ge=1, le=10_000_000)]


class KVEventsConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """vLLM's fields and defaults, but the default address is on this machine."""

    enable_kv_cache_events: bool = False
    publisher: Literal["null", "zmq"] | None = None
    """None means `zmq` if events are enabled."""
    endpoint: str = "tcp://127.0.0.1:5557"
    replay_endpoint: str | None = None
    buffer_steps: _Count = 10_000
    """Number of batches kept for replay."""
    hwm: _Count = 100_000
    """Number of batches that can wait for a subscriber; beyond it, the subscriber loses some."""
    max_queue_size: _Count = 100_000
    """The same for the publishing thread."""
    topic: str = ""

    @classmethod
    def from_json(cls, text: str) -> KVEventsConfig:
        """Parse vLLM's JSON. Raises `ConfigError`."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise ConfigError(
                f"--kv-events-config is not valid ({error}): write it like"
                ' \'{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint":'
                ' "tcp://127.0.0.1:5557"}\'.'
            ) from error

    @contextmanager
    def publishing(self) -> Iterator[KVEventPublisher | None]:
        """Yield the bound publisher and close it at the end. If events are off, yield None.

        Raises `ConfigError`.
        """
        if not self.enable_kv_cache_events or self.publisher == "null":
            yield None
            return
        try:
            from minivllm.server.feeds.kv_publisher import KVEventPublisher
        except ModuleNotFoundError as error:
            raise ConfigError(
                "To publish KV events, install pyzmq: pip install 'minivllm[kv-events]'."
            ) from error
        publisher = KVEventPublisher(self)
        try:
            yield publisher
        finally:
            publisher.close()
