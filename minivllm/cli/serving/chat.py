"""`minivllm chat`: a conversation in the terminal.

Each turn sends the whole conversation history, which is cheap because of the prefix cache. Ctrl-C
must end the answer but not the engine, so the engine runs in its own thread, where no
KeyboardInterrupt can break a step.
"""

import argparse
import re
import sys
import time
from itertools import count
from queue import SimpleQueue
from shutil import get_terminal_size

from rich.cells import cell_len

from minivllm.cli import options
from minivllm.cli.loading import load_engine
from minivllm.cli.terminal import note, show
from minivllm.engine.engine_thread import EngineThread
from minivllm.errors import InvalidRequestError
from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind, SamplingParams

SAMPLING_DEFAULTS = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 512}
"""Values that SmolLM2's authors recommend. At temperature 0, a small model repeats itself."""
HELP = "/reset clears the conversation, /exit or Ctrl-D ends it, Ctrl-C stops an answer."


def add_arguments(parser: options.Parser) -> None:
    parser.add("--system TEXT", "a system message at the start of the conversation")
    options.add_sampling_options(parser, SAMPLING_DEFAULTS, leave_out=options.SEVERAL_TEXTS)
    options.add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    config = options.engine_config(args)
    usual = SAMPLING_DEFAULTS | {"output_kind": RequestOutputKind.DELTA}
    params = options.sampling_params(args, usual)
    engine = load_engine(config)
    note(f"Chatting with {engine.log_header().model_and_weights}. {HELP}")
    with EngineThread(engine) as thread:
        conversation = _Conversation(thread, params, args.system)
        conversation.run()
    return 1 if conversation.was_refused else 0


class _Conversation:
    def __init__(self, thread: EngineThread, params: SamplingParams, system: str | None) -> None:
        self.was_refused = False
        """Whether a message was refused, most likely because the conversation was too long."""
        self._thread, self._params = thread, params
        self._opening = [] if system is None else [{"role": "system", "content": system}]
        self._messages = list(self._opening)
        self._request_ids = (f"turn-{number}" for number in count(1))

    def run(self) -> None:
        """Run until Ctrl-D or /exit."""
        interactive = sys.stdin.isatty()
        if interactive:
            import readline  # noqa: F401 - gives `input` line editing and a history
        while True:
            try:
                line = input("you> " if interactive else "").strip()
            except EOFError:
                if interactive:
                    note()
                return
            except KeyboardInterrupt:
                note("\n(Ctrl-D ends the conversation.)")
                continue
            match line:
                case "":
                    continue
                case "/exit":
                    return
                case "/reset":
                    self._messages = list(self._opening)
                    note("(The conversation was cleared.)")
                case "/help":
                    note(HELP)
                case _ if line.startswith("/"):
                    note(f"There is no command {line.split()[0]}. {HELP}")
                case _:
                    self._take_turn(line)

    def _take_turn(self, question: str) -> None:
        """Answer `question`; a refused question is not added to the conversation."""
        messages = [*self._messages, {"role": "user", "content": question}]
        try:
            answer = self._stream_answer(messages)
        except InvalidRequestError as error:
            self.was_refused = True
            note(f"minivllm: {error} (/reset starts a new conversation.)")
        else:
            self._messages = [*messages, {"role": "assistant", "content": answer}]

    def _stream_answer(self, messages: list[dict[str, str]]) -> str:
        """Show the answer as it is generated, until its end or Ctrl-C; return the shown text."""
        began, answer, num_tokens, cached = time.monotonic(), "", 0, 0
        request_id, thread = next(self._request_ids), self._thread
        asked = thread.call(lambda engine: engine.tokenizer.apply_chat_template(messages))
        token_ids = asked.result()
        prompt = {"prompt_token_ids": token_ids, "prompt": messages[-1]["content"]}
        outputs: SimpleQueue[RequestOutput | None] = SimpleQueue()
        words = WrappedText(get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize)
        future = thread.add_request(request_id, prompt, self._params, on_output=outputs.put)
        # End the loop below, even after an error.
        future.add_done_callback(lambda _: outputs.put(None))
        try:
            for output in iter(outputs.get, None):
                (new,), cached = output.outputs, output.num_cached_tokens
                answer += new.text
                num_tokens += len(new.token_ids)
                words.show(new.text)
            future.result()
        except KeyboardInterrupt:
            thread.abort_request(request_id).result()
        rate = num_tokens / max(time.monotonic() - began, 1e-9)
        words.show("\n", is_end=True)
        hits = f"{cached} of {len(token_ids)} prompt tokens were cached"
        note(f"({num_tokens} tokens, {rate:.1f} a second; {hits})")
        return answer


_WORD = re.compile(r"(\s*)(\S{24}|\S+(?=\s))")
"""A whole word; of a text without spaces, a part."""


class WrappedText:
    """Shows a stream word by word, with a line break before a word that would cross the edge."""

    def __init__(self, width: int) -> None:
        self._width, self._column, self._held = width, 0, ""

    def show(self, text: str, *, is_end: bool = False) -> None:
        text, end = self._held + text, 0
        for found in _WORD.finditer(text):
            (space, word), end = found.groups(), found.end()
            _, breaks, indent = space.rpartition("\n")
            column = cell_len(indent) + (0 if breaks else self._column)
            if column and column + cell_len(word) > self._width:
                space, column = "\n", 0
            show(space + word)
            self._column = column + cell_len(word)
        self._held = text[end:]
        if is_end:
            show(self._held)
