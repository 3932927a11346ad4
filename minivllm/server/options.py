"""`ServerOptions`: how to serve, as opposed to how to run the engine (`EngineConfig`).

Plain data, checked once when it is made. The decision that is easy to get wrong is who may connect:
the default is this machine alone, and an address that others can reach is refused without an API
key, here and not in the command line, so that nobody who builds a server by hand can forget it.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Literal

from msgspec import Meta

from minivllm.checks import check_fields
from minivllm.errors import ConfigError

GenerateDelimiter = Literal["null", "newline"]
Strings = Annotated[tuple[str, ...], Meta(description="a tuple of strings")]
Seconds = Annotated[float, Meta(ge=0, le=1_000_000)]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a browser or a client on this machine calls us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Everything about the server that a person may want to set."""

    host: Annotated[str, Meta(min_length=1, description="a name or an address")] = "127.0.0.1"
    """The address to serve on. One that other machines can reach is refused without an
    `api_key`.
    """
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """0: any that is free."""
    api_key: Strings = ()
    """Any of these opens every route; none: no key is asked for."""
    served_model_name: str | None = None
    """What clients call the model; None: what it was loaded by."""
    allowed_hosts: Strings = ()
    """More names that a request's Host header may carry. On loopback only its own names are taken
    otherwise.
    """
    max_waiting_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 256
    """With more in the queue a request is told to come back later (status 429)."""
    request_timeout: Seconds = 600.0
    """Seconds from a request's arrival to its end."""
    drain_timeout: Seconds = 30.0
    """Seconds that running requests are given when the server is told to end."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 1 << 20
    """A longer body is refused (status 413)."""
    body_timeout: Seconds = 30.0
    """Seconds that a client has for sending its body."""
    events: bool = False
    """Whether `/events` tells everything, everybody's prompts among it, to whoever has the key."""
    generate_delimiter: GenerateDelimiter = "null"
    """What follows each piece of a streamed `/generate`: vLLM's byte 0 up to 0.6.3, or its newline
    after.
    """

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        if any(not key or not key.isascii() or not key.isprintable() for key in self.api_key):
            raise ConfigError("api_key must be made of printable ASCII characters, at least one.")
        if any(key != key.strip() for key in self.api_key):
            raise ConfigError(
                "api_key must not begin or end with a space: HTTP drops such spaces, so no client"
                " could send it."
            )
        if not self.is_loopback and not self.api_key:
            raise ConfigError(
                f"host {self.host!r} can be reached by other machines: set an api_key, or serve on"
                " 127.0.0.1."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False  # some other name: it may point anywhere
