"""`ServerOptions`: how to serve the engine.

By default only this machine can connect. An address that other machines can reach requires an API
key. The class checks that, also for servers that are built in Python.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Literal, get_args

from msgspec import Meta

from minivllm.checks import check_fields
from minivllm.errors import ConfigError
from minivllm.server.parsers.message import ReasoningParserName
from minivllm.server.parsers.tool_calls import ToolParserName

Strings = Annotated[tuple[str, ...], Meta(description="a tuple of strings")]
Seconds = Annotated[float, Meta(ge=0, le=1_000_000)]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names that a local client may send in the Host header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    host: Annotated[str, Meta(min_length=1, description="a name or an address")] = "127.0.0.1"
    """The address to serve on; an `api_key` is required if other machines can reach it."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """The port to serve on; 0 is any free port."""
    api_key: Strings = ()
    """Each of these keys opens every route. If there are none, no key is required."""
    served_model_name: str | None = None
    """The model's name for clients. None: the name that the model was loaded by."""
    allowed_hosts: Strings = ()
    """Additional names that a request's Host header may contain. Without them, a server on loopback
    accepts only loopback names.
    """
    max_waiting_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 256
    """Longest queue of waiting requests; when it is full, requests are refused (status 429)."""
    request_timeout: Seconds = 600.0
    """Longest time from a request's arrival to its end, in seconds."""
    drain_timeout: Seconds = 30.0
    """Seconds that running requests get to finish when the server shuts down."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 1 << 20
    """Longest request body, in bytes; a longer one is refused (status 413)."""
    body_timeout: Seconds = 30.0
    """Seconds that a client has to send its body."""
    events: bool = False
    """Whether `/events` sends all events, with all users' prompts, to clients that have the key."""
    generate_delimiter: Literal["null", "newline"] = "null"
    """What follows each piece of a streamed `/generate`: a zero byte (vLLM up to 0.6.3) or a
    newline (later vLLM).
    """

    enable_auto_tool_choice: bool = False
    """Whether the model may choose a tool itself. It needs a `tool_call_parser`."""
    tool_call_parser: ToolParserName | None = None
    """The form in which the model calls tools: Hermes 2 Pro's and Qwen's, or Llama 3's."""
    reasoning_parser: ReasoningParserName | None = None
    """How the model marks its reasoning, which is then separated from its answers. None: not at
    all.
    """

    def __post_init__(self) -> None:
        check_fields(self, ConfigError)
        if self.enable_auto_tool_choice and self.tool_call_parser is None:
            raise ConfigError(
                "enable_auto_tool_choice needs tool_call_parser: set it to the form in which the"
                f" model calls tools, {' or '.join(get_args(ToolParserName))}."
            )
        if any(not key or not key.isascii() or not key.isprintable() for key in self.api_key):
            raise ConfigError("api_key must be made of printable ASCII characters, at least one.")
        if any(key != key.strip() for key in self.api_key):
            raise ConfigError("api_key must not begin or end with a space, which HTTP removes.")
        if not self.is_loopback and not self.api_key:
            raise ConfigError(
                f"host {self.host!r} is reachable from other machines: set an api_key, or serve on"
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
            return False  # a name other than localhost can resolve to any address

    @property
    def host_names(self) -> list[str] | None:
        """Names that the Host header may contain; None: any.

        A web page in a browser can reach a local server under the page's own host name, but it does
        not know the API key. So a server with a key accepts any name, unless `allowed_hosts` is
        given.
        """
        if self.allowed_hosts or self.is_loopback:
            return [*LOOPBACK_NAMES, self.host, *self.allowed_hosts]
        return None
