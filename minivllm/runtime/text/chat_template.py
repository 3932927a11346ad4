"""`ChatTemplate`: turns a list of messages into the text that the model was trained to continue.

The result is the same as from `apply_chat_template(add_generation_prompt=True)` of `transformers`,
whose imports take seconds.

A template is an untrusted Jinja program. It runs in Jinja's sandbox, in a worker process that
ends when it uses too much time or memory (see `template_worker`). So a template that loops
forever fails only its own request.

Source: transformers 5, `utils/chat_template_utils.py`.
"""

import json
import re
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from minivllm.errors import InvalidRequestError

ChatMessage = Mapping[str, Any]
"""A dictionary with the key `role`, and nearly always `content`."""
ToolDefinition = Mapping[str, Any]
"""A dictionary `{"type": "function", "function": {"name", "description", "parameters"}}`."""

MAX_SECONDS = 5.0
"""Limit of processor time, in seconds. A thousand messages take a few hundredths of a second."""
_MAX_ANSWER_BYTES = 64 << 20
"""More than the longest text that a worker sends has, encoded as JSON."""
_TOOLS_IN_CODE = re.compile(r"\{[{%][^}]*\btools\b")


class ChatTemplate:
    """A template and the workers that have compiled it. Several threads can render at once."""

    def __init__(
        self, source: str, special_tokens: Mapping[str, str], *, max_seconds: float = MAX_SECONDS
    ) -> None:
        """special_tokens: variables of the template, such as `bos_token`"""
        self._setup = {
            "source": source,
            "special_tokens": dict(special_tokens),
            "max_seconds": max_seconds,
        }
        self._idle: list[_WorkerProcess] = []

    def render(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition] | None = None
    ) -> str:
        """Render the prompt for the assistant's next message. Raises `InvalidRequestError`."""
        conversation = _encode([[_plain_message(message) for message in messages], tools or None])
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._start_worker()
        try:
            answer = worker.ask(conversation)
        # After any error (even Ctrl-C), end the worker: its late answer must not be taken for the
        # next conversation's.
        except BaseException:
            worker.close()
            raise
        self._idle.append(worker)
        # The template's own message is for the server's operator, not for clients.
        if "error" in answer:
            raise InvalidRequestError(
                "The model's chat template does not accept these messages: change their roles or"
                " their order, or send less."
            ) from RuntimeError(answer["error"])
        return answer["text"]

    def _start_worker(self) -> "_WorkerProcess":
        worker = _WorkerProcess()
        answer = worker.ask(_encode(self._setup))
        if "error" in answer:
            worker.close()
            raise InvalidRequestError(
                f"This model's chat template cannot be used ({answer['error']:.200}): use"
                " `generate` with a plain prompt."
            )
        return worker


def uses_tools(source: str) -> bool:
    """Whether a template reads the variable `tools`."""
    return _TOOLS_IN_CODE.search(source) is not None


class _WorkerProcess:
    """One worker process; do not use it again after `ask` has raised."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "minivllm.runtime.text.template_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C in our terminal does not end the worker
        )
        self.close = weakref.finalize(self, _end, self._process)
        """Also called when the worker is garbage-collected, and at exit."""

    def ask(self, line: bytes) -> dict[str, str]:
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._process.stdout.readline(_MAX_ANSWER_BYTES)
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            raise InvalidRequestError(
                "The model's chat template takes too much time or memory for these messages: send"
                " less, or use `generate` with a plain prompt."
            )
        return json.loads(answer)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    # Close the pipes (even if they contain an unread line) and wait for the process.
    with suppress(BrokenPipeError), process:
        pass


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"Chat messages must be plain data that JSON can represent ({error})."
        ) from error


def _plain_message(message: ChatMessage) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidRequestError(
            f"A chat message must be a dict with a role and content; got {message!r:.100}."
        )
    # Clients send nulls, such as `"content": null`; a template would print them as "None".
    return {key: value for key, value in message.items() if value is not None}
