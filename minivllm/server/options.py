"""`ServerOptions`: how to serve, as opposed to how to run the engine (`EngineConfig`).

Plain data, checked once when it is made. The decision that is easy to get wrong is who may connect: the default is
this machine alone, and an address that others can reach is refused without an API key, here and not in the command
line, so that nobody who builds a server by hand can forget it.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, get_args

from minivllm.errors import ConfigError

GenerateDelimiter = Literal["null", "newline"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a browser or a client on this machine calls us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Everything about the server that a person may want to set."""

    host: str = "127.0.0.1"
    """The address to serve on. One that other machines can reach is refused without an `api_key`."""
    port: int = 8000
    """0: any that is free."""
    api_key: tuple[str, ...] = ()
    """Any of these opens every route; none: no key is asked for."""
    served_model_name: str | None = None
    """What clients call the model; None: what it was loaded by."""
    allowed_hosts: tuple[str, ...] = ()
    """More names that a request's Host header may carry. On loopback only its own names are taken otherwise."""
    max_waiting_requests: int = 256
    """With more in the queue a request is told to come back later (status 429)."""
    request_timeout: float = 600.0
    """Seconds from a request's arrival to its end."""
    drain_timeout: float = 30.0
    """Seconds that running requests are given when the server is told to end."""
    max_body_bytes: int = 1 << 20
    """A longer body is refused (status 413)."""
    body_timeout: float = 30.0
    """Seconds that a client has for sending its body."""
    events: bool = False
    """Whether `/events` tells everything, everybody's prompts among it, to whoever has the key."""
    generate_delimiter: GenerateDelimiter = "null"
    """What follows each piece of a streamed `/generate`: vLLM's byte 0 up to 0.6.3, or its newline after."""

    def __post_init__(self) -> None:
        _require(isinstance(self.host, str) and self.host != "", "host must be a name or an address", self.host)
        _require_int("port", self.port, 0, 65535)
        _require_int("max_waiting_requests", self.max_waiting_requests, 1, 1_000_000)
        _require_int("max_body_bytes", self.max_body_bytes, 1024, 1 << 30)
        for name in ("request_timeout", "drain_timeout", "body_timeout"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            _require(is_number and 0.0 <= value < 1e6, f"{name} must be a number of seconds, 0 or more", value)
        _require(
            self.generate_delimiter in get_args(GenerateDelimiter),
            f"generate_delimiter must be one of {', '.join(get_args(GenerateDelimiter))}",
            self.generate_delimiter,
        )
        if any(not key or not key.isascii() or not key.isprintable() for key in self.api_key):
            raise ConfigError("api_key must be made of printable ASCII characters, at least one.")
        if any(key != key.strip() for key in self.api_key):
            raise ConfigError(
                "api_key must not begin or end with a space: HTTP drops such spaces, so no client could send it."
            )
        if not self.is_loopback and not self.api_key:
            raise ConfigError(
                f"host {self.host!r} can be reached by other machines: set an api_key, or serve on 127.0.0.1."
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


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"{rule}; got {value!r}.")


def _require_int(name: str, value: object, low: int, high: int) -> None:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    _require(is_int and low <= value <= high, f"{name} must be a whole number, from {low} to {high}", value)
