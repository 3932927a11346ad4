"""`minivllm generate`: complete one prompt, streaming, or many at once.

A single text appears token by token. Several texts (for several prompts, samples or beams) are
generated together and printed in order, each as soon as possible. A refused prompt does not stop
the others.
"""

import argparse
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

from minivllm.cli.loading import load_engine
from minivllm.cli.options import (
    add_engine_options,
    add_sampling_options,
    engine_config,
    sampling_params,
)
from minivllm.cli.serving.probabilities import Probabilities
from minivllm.cli.terminal import note, print_json, show
from minivllm.clock import MonotonicClock
from minivllm.engine.engine import LLMEngine
from minivllm.engine.requests import Prompt
from minivllm.errors import InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import (
    RequestOutputKind,
    SamplingParams,
    StructuredOutputsParams,
)
from minivllm.structured_outputs_params import ONE_SPACE
from minivllm.text import plural

SAMPLING_DEFAULTS = {"temperature": 0.0, "max_tokens": 128}
"""Defaults for the terminal: a likely and long text. vLLM's defaults for servers are 1.0 and 16."""
SAMPLES_TEMPERATURE = 1.0
"""For several samples: at temperature 0, all would be the same text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prompts",
        nargs="*",
        metavar="PROMPT",
        help="prompts to complete (default: lines of standard input)",
    )
    parser.add_argument(
        "--file", metavar="FILE", help="read prompts from FILE, one per line; - is standard input"
    )
    parser.add_argument(
        "--chat",
        action="store_true",
        help="send each prompt as a chat message, using the model's template",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON instead of text"
    )
    form = parser.add_argument_group("form of the output").add_mutually_exclusive_group()
    form.add_argument("--json-schema", metavar="FILE", help="write JSON that fits this JSON schema")
    form.add_argument("--regex", metavar="REGEX", help="write a text that fits this regex")
    form.add_argument(
        "--choice", metavar="TEXT", action="append", help="write one of these; give several"
    )
    add_sampling_options(parser, SAMPLING_DEFAULTS | {"temperature": "0, or 1 for several samples"})
    add_engine_options(parser)
    parser.set_defaults(usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    config = engine_config(args)
    params = _params(args)
    prompts = _read_prompts(args)
    if not prompts:
        args.usage_error("no prompt: give one as an argument, in a --file, or on standard input")
    if params.logprobs is not None and not (params.greedy or args.json):
        config = dataclasses.replace(config, explain_tokens=True)
    engine = load_engine(config)
    now = MonotonicClock().now
    began = now()
    run_ = _Run(engine, prompts, params, chat=args.chat)
    if args.json:
        run_.finish()
    elif len(prompts) == 1 and params.num_sequences == 1:
        run_.stream()
    else:
        run_.print_in_order()
    seconds = now() - began
    tokens = sum(
        len(text.token_ids) for output in run_.finished.values() for text in output.outputs
    )
    if args.json:
        models = {"model": config.model, "weights": engine.weights}
        print_json(models | _as_json(run_, tokens, seconds))
        return 1 if run_.refused else 0
    texts = [text for output in run_.finished.values() for text in output.outputs]
    if params.structured_outputs and any(text.finish_reason == "length" for text in texts):
        note(f"minivllm: --max-tokens {params.max_tokens} ended an incomplete output: raise it.")
    if tokens:
        cached = sum(output.num_cached_tokens for output in run_.finished.values())
        note(
            f"{config.model} ({engine.weights}): {tokens} tokens in {seconds:.1f} s,"
            f" {tokens / seconds:.1f} a second; {cached} prompt tokens were cached"
        )
    return 1 if run_.refused else 0


class _Run:
    def __init__(
        self, engine: LLMEngine, prompts: list[str], params: SamplingParams, *, chat: bool
    ) -> None:
        self.prompts = prompts
        self.finished: dict[int, RequestOutput] = {}
        """Number of a prompt -> the prompt's output, with all texts."""
        self.refused: dict[int, InvalidRequestError] = {}
        self._engine = engine
        self._params = params
        self._probabilities = Probabilities(engine)
        for number, text in enumerate(prompts):
            prompt: Prompt = text
            if chat:
                token_ids = engine.tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}]
                )
                prompt = {"prompt_token_ids": token_ids, "prompt": text}
            try:
                engine.add_request(
                    str(number),
                    prompt,
                    dataclasses.replace(params, output_kind=RequestOutputKind.CUMULATIVE),
                )
            except InvalidRequestError as error:
                self.refused[number] = error
                note(f"minivllm: {_with_option(error)}")

    def _outputs(self) -> Iterator[RequestOutput]:
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                if output.finished:
                    self.finished[int(output.request_id)] = output
                yield output

    def finish(self) -> None:
        for _ in self._outputs():
            pass

    def stream(self) -> None:
        shown = 0
        for output in self._outputs():
            text = output.outputs[0].text
            show(text[shown:])
            shown = len(text)
        for output in self.finished.values():
            show("\n" + self._probabilities.describe(output, output.outputs[0]))

    def print_in_order(self) -> None:
        """Show each whole text as soon as all earlier ones are shown."""
        next_number = 0
        for _ in self._outputs():
            while next_number in self.finished or next_number in self.refused:
                output = self.finished.get(next_number)
                for text in output.outputs if output else ():
                    show(self._label(next_number, text.index))
                    show(text.text.strip("\n").replace("\n", "\n    ") + "\n")
                    if self._params.use_beam_search:
                        show(score(text, self._params))
                    else:
                        show(self._probabilities.describe(output, text))
                next_number += 1

    def _label(self, number: int, index: int) -> str:
        several_prompts, several_texts = len(self.prompts) > 1, self._params.n > 1
        parts = [str(number + 1)] * several_prompts + [str(index + 1)] * several_texts
        return f"[{'.'.join(parts)}] " if parts else ""


def score(output: CompletionOutput, params: SamplingParams) -> str:
    """Return a line with the score by which a beam search ranks a text."""
    num_tokens, logprob = len(output.token_ids), output.cumulative_logprob
    ranked = logprob / num_tokens**params.length_penalty
    return (
        f"    score {ranked:.3f}: log-probability {logprob:.2f} of {plural(num_tokens, 'token')}\n"
    )


def _params(args: argparse.Namespace) -> SamplingParams:
    params = sampling_params(args, SAMPLING_DEFAULTS)
    params = dataclasses.replace(params, structured_outputs=_structured_outputs(args))
    if params.use_beam_search:
        # Show as many texts as there are beams. The server's default shows only the best text.
        return params if hasattr(args, "n") else dataclasses.replace(params, n=params.num_sequences)
    if params.num_sequences > 1 and not hasattr(args, "temperature"):
        params = dataclasses.replace(params, temperature=SAMPLES_TEMPERATURE)
    # A typed seed applies to each prompt, so that a text depends only on seed and prompt, and not
    # on other requests in the batch.
    return dataclasses.replace(params, seed=getattr(args, "seed", None))


def _structured_outputs(args: argparse.Namespace) -> StructuredOutputsParams | None:
    schema = None if args.json_schema is None else _read_text(args.json_schema)
    given = {"json": schema, "regex": args.regex, "choice": args.choice}
    if all(one is None for one in given.values()):
        return None
    return StructuredOutputsParams(
        **given, whitespace_pattern=None if schema is None else ONE_SPACE
    )


def _with_option(error: InvalidRequestError) -> str:
    """Return the message, with the option that was given in place of the engine's field."""
    message = str(error)
    for kind, option in (("json", "--json-schema"), ("regex", "--regex"), ("choice", "--choice")):
        message = message.replace(f"structured_outputs: {kind} ", f"{option} ")
    return message


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{path} is not UTF-8 text: convert it first.") from error


def _read_prompts(args: argparse.Namespace) -> list[str]:
    from_stdin = args.file == "-" or (
        args.file is None and not args.prompts and not sys.stdin.isatty()
    )
    if from_stdin:
        try:
            text = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequestError(
                "standard input is not UTF-8 text: convert it first."
            ) from error
    else:
        text = "" if args.file is None else _read_text(args.file)
    # Skip empty lines between prompts. But an empty argument is a prompt, and will be refused.
    return list(args.prompts) + [line for line in text.splitlines() if line]


def _as_json(run_: _Run, tokens: int, seconds: float) -> dict[str, object]:
    outputs: list[dict[str, object]] = []
    for number, prompt in enumerate(run_.prompts):
        if number in run_.refused:
            outputs.append({"prompt": prompt, "error": str(run_.refused[number])})
            continue
        output = run_.finished[number]
        for completion in map(dataclasses.asdict, output.outputs):
            outputs.append(
                {"prompt": prompt, "num_cached_tokens": output.num_cached_tokens, **completion}
            )
    return {
        "outputs": outputs,
        "generated_tokens": tokens,
        "seconds": seconds,
        "tokens_per_s": tokens / seconds if tokens else 0.0,
    }
