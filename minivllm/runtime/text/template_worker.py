"""`python -m minivllm.runtime.text.template_worker`: render one chat template, in its own process.

It reads one JSON value per line from standard input: first the template with its special tokens,
then conversations, each a list of messages with a list of tools (or null). For each line it writes
one line to standard output: `{"text": ...}`, or `{"error": ...}` with the template's exception.

Jinja's sandbox protects our objects and files, but does not limit the cost of an operation:
`'a' * 10**9` takes a gigabyte of memory. So the process has two limits. Too much time ends it by a
signal; too much memory ends it with a `MemoryError`. The time limit is in processor time: a busy
machine must not fail a long chat, and no template can wait without using processor time.
"""

import json
import resource
import signal
import sys
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_BYTES = 256 << 20
"""Limit of the address space, in bytes; Python and Jinja take 25 MiB. Only Linux enforces it."""
MAX_CHARACTERS = 1 << 22
"""Longest text that a template may write: by default, four times what a client can send."""


def compile_template(source: str) -> jinja2.Template:
    """Compile with the options of transformers. Raises Jinja's exceptions."""
    # White space is part of the format: one newline too many or too few makes answers worse.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return environment.from_string(source)


def render(
    template: jinja2.Template,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None,
    special_tokens: dict[str, str],
) -> str:
    text = template.render(
        messages=messages,
        tools=tools,
        documents=None,
        add_generation_prompt=True,
        **special_tokens,
    )
    if len(text) > MAX_CHARACTERS:
        raise OverflowError(f"the template wrote more than {MAX_CHARACTERS} characters")
    return text


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any
) -> str:
    # Jinja's own filter escapes characters for HTML, but models are not trained on such text.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


class _GenerationTag(Extension):
    """Ignores `{% generation %}...{% endgeneration %}`, which marks answers for training."""

    tags = {"generation"}  # noqa: RUF012  (Jinja reads it from the class)

    def parse(self, parser: Parser) -> nodes.Scope:
        line = next(parser.stream).lineno
        return nodes.Scope(
            parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line
        )


def main() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # the default ends the process at once
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    setup, template = None, None
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        setup = setup or request
        signal.setitimer(signal.ITIMER_PROF, setup["max_seconds"])
        try:
            if template is None:
                template, answer = compile_template(setup["source"]), {"text": ""}
            else:
                answer = {"text": render(template, *request, setup["special_tokens"])}
        except MemoryError:
            raise  # end this process, whose state is unknown; the next conversation gets a new one
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
