"""Parses `vllm serve` commands with vLLM's own parser; needs a Python that has vLLM.

It reads a list of commands (lists of words, without `vllm`) as JSON and prints for each one the
value of every option that the command names.
"""

import json
import sys

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser


def main() -> None:
    parser = FlexibleArgumentParser()
    ServeSubcommand().subparser_init(parser.add_subparsers())
    for words in json.load(sys.stdin):
        parsed = vars(parser.parse_args(words))
        names = [
            word[2:].removeprefix("no-").replace("-", "_") for word in words if word[:2] == "--"
        ]
        print(json.dumps({name: parsed[name] for name in names}, default=str))


if __name__ == "__main__":
    main()
