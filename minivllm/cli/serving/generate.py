"""`minivllm generate`: complete one prompt, streaming, or many at once.

A single text appears token by token. Several texts (for several prompts, samples or beams) are
generated together and printed in order, each as soon as possible. A refused prompt does not stop
the others.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from pathlib import Path

from minivllm.cli import add_option, options
from minivllm.cli.loading import load_engine
from minivllm.cli.terminal import note, print_json, show
from minivllm.engine.engine import LLMEngine
from minivllm.engine.requests import Prompt
from minivllm.errors import ConfigError, InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import ONE_SPACE, SamplingParams, StructuredOutputsParams
from minivllm.text import plural

SAMPLING_DEFAULTS = {"temperature": 0.0, "max_tokens": 128}
"""Defaults for the terminal: a likely and long text. vLLM's defaults for servers are 1.0 and 16."""
SAMPLES_TEMPERATURE = 1.0
"""For several samples: at temperature 0, all would be the same text."""


def add_arguments(parser: options.Parser) -> None:
    what = "prompts to complete (default: lines of standard input)"
    parser.add("PROMPT", what, dest="prompts", nargs="*")
    parser.add("--file FILE", "read prompts from FILE, one per line; - is standard input")
    parser.add("--chat", "send each prompt as a chat message, using the model's template")
    parser.add("--json", "print one line of JSON instead of text")
    form = parser.add_argument_group("form of the output").add_mutually_exclusive_group()
    add_option(form, "--json-schema FILE", "write JSON that fits this JSON schema")
    add_option(form, "--regex REGEX", "write a text that fits this regex")
    add_option(form, "--choice TEXT", "write one of these; give several", action="append")
    usual = SAMPLING_DEFAULTS | {"temperature": "0, or 1 for several samples"}
    options.add_sampling_options(parser, usual)
    options.add_engine_options(parser)


def run(args: argparse.Namespace) -> int:
    config, params, prompts = options.engine_config(args), _params(args), _read_prompts(args)
    if not prompts:
        raise ConfigError("No prompt: give one as an argument, in --file, or on standard input.")
    engine = load_engine(config)
    began = time.monotonic()
    refused = _add_requests(engine, prompts, params, chat=args.chat)
    single = len(prompts) == 1 and params.num_sequences == 1
    finished: dict[int, RequestOutput] = {}
    shown = 0  # characters of a single text, else prompts
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                finished[int(output.request_id)] = output
            if single and not args.json:
                text = output.outputs[0].text
                show(text[shown:])
                shown = len(text)
        while not (single or args.json) and shown in finished.keys() | refused.keys():
            if shown in finished:
                _show_texts(shown, finished[shown], params, several=len(prompts) > 1)
            shown += 1
    seconds = time.monotonic() - began
    texts = [text for output in finished.values() for text in output.outputs]
    tokens = sum(len(text.token_ids) for text in texts)
    if args.json:
        result = {
            "model": config.model,
            "weights": engine.weights,
            "outputs": _outputs_json(prompts, finished, refused),
            "generated_tokens": tokens,
            "seconds": seconds,
            "tokens_per_s": tokens / seconds if tokens else 0.0,
        }
        print_json(result)
        return 1 if refused else 0
    if single and texts:
        show("\n" + _describe(texts[0]))
    if params.structured_outputs and any(text.finish_reason == "length" for text in texts):
        note(f"minivllm: --max-tokens {params.max_tokens} ended an incomplete output: raise it.")
    if tokens:
        cached = sum(output.num_cached_tokens for output in finished.values())
        speed = f"{tokens} tokens in {seconds:.1f} s, {tokens / seconds:.1f} a second"
        note(f"{config.model} ({engine.weights}): {speed}; {cached} prompt tokens were cached")
    return 1 if refused else 0


def _add_requests(
    engine: LLMEngine, prompts: list[str], params: SamplingParams, *, chat: bool
) -> dict[int, InvalidRequestError]:
    """Queue all prompts; return the number and the error of each that is refused."""
    refused: dict[int, InvalidRequestError] = {}
    for number, text in enumerate(prompts):
        prompt: Prompt = text
        if chat:
            messages = [{"role": "user", "content": text}]
            token_ids = engine.tokenizer.apply_chat_template(messages)
            prompt = {"prompt_token_ids": token_ids, "prompt": text}
        try:
            engine.add_request(str(number), prompt, params)
        except InvalidRequestError as error:
            refused[number] = error
            note(f"minivllm: {_with_option(error)}")
    return refused


def _show_texts(
    number: int, output: RequestOutput, params: SamplingParams, *, several: bool
) -> None:
    """Show all texts of a prompt, with the numbers of prompt and text if there are several."""
    for text in output.outputs:
        parts = [str(number + 1)] * several + [str(text.index + 1)] * (params.n > 1)
        label = f"[{'.'.join(parts)}] " if parts else ""
        show(label + text.text.strip("\n").replace("\n", "\n    ") + "\n")
        show(score(text, params) if params.use_beam_search else _describe(text))


def _describe(text: CompletionOutput) -> str:
    """Return a line for each token of `text` with log-probabilities: its own, and others."""
    lines = []
    for token_id, likely in zip(text.token_ids, text.logprobs or (), strict=False):
        # Quoted, so that spaces and line ends are visible.
        own, *others = (
            (json.dumps(token.decoded_token, ensure_ascii=False), f"{math.exp(token.logprob):.1%}")
            for token in likely.values()  # the text's own token is first
        )
        line = f"    {own[0]:<16} {own[1]:>6}  rank {likely[token_id].rank:<4}"
        rest = ", ".join(map(" ".join, others))
        lines.append(f"{line}  others: {rest}\n" if rest else f"{line}\n")
    return "".join(lines)


def score(output: CompletionOutput, params: SamplingParams) -> str:
    """Return a line with the score by which a beam search ranks a text."""
    num_tokens, logprob = len(output.token_ids), output.cumulative_logprob
    ranked = logprob / num_tokens**params.length_penalty
    of = plural(num_tokens, "token")
    return f"    score {ranked:.3f}: log-probability {logprob:.2f} of {of}\n"


def _params(args: argparse.Namespace) -> SamplingParams:
    params = options.sampling_params(args, SAMPLING_DEFAULTS)
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
    if all(value is None for value in given.values()):
        return None
    spaces = None if schema is None else ONE_SPACE
    return StructuredOutputsParams(**given, whitespace_pattern=spaces)


def _with_option(error: InvalidRequestError) -> str:
    """Return the message, with the option that was given in place of the engine's field."""
    message = str(error)
    for kind, option in (("json", "--json-schema"), ("regex", "--regex"), ("choice", "--choice")):
        message = message.replace(f"structured_outputs: {kind} ", f"{option} ")
    return message


def _read_text(path: str) -> str:
    name = "standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{name} is not UTF-8 text: convert it first.") from error


def _read_prompts(args: argparse.Namespace) -> list[str]:
    file = args.file
    if file is None and not args.prompts and not sys.stdin.isatty():
        file = "-"
    text = "" if file is None else _read_text(file)
    # Skip empty lines between prompts. But an empty argument is a prompt, and will be refused.
    return list(args.prompts) + [line for line in text.splitlines() if line]


def _outputs_json(
    prompts: list[str], finished: dict[int, RequestOutput], refused: dict[int, InvalidRequestError]
) -> list[dict[str, object]]:
    outputs: list[dict[str, object]] = []
    for number, prompt in enumerate(prompts):
        if number in refused:
            outputs.append({"prompt": prompt, "error": str(refused[number])})
            continue
        common = {"prompt": prompt, "num_cached_tokens": finished[number].num_cached_tokens}
        outputs += [common | dataclasses.asdict(text) for text in finished[number].outputs]
    return outputs
