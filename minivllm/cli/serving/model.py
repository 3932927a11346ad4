"""`minivllm model list | fetch | path`: lists and downloads models, and prints where they are.

`path` is for scripts: the last line on standard output is the directory of a checkpoint that
`transformers` can read: a GGUF file is unpacked. All messages go to standard error.
"""

import argparse

from minivllm.cli import Parser, add_command
from minivllm.runtime.model.model_config import FAMILIES
from minivllm.runtime.progress import format_bytes
from minivllm.runtime.store.model_store import ModelStore, fetch_model, resolve_for_transformers


def add_arguments(parser: Parser) -> None:
    commands = parser.add_subparsers(dest="model_command", metavar="COMMAND", required=True)
    add_command(commands, "list", "list the aliases and all models here").set_defaults(run=_list)
    which = "alias, checkpoint directory, .gguf file or Hugging Face id"
    for name, run, summary in (
        ("fetch", _fetch, "download a model if it is not on this machine"),
        ("path", _path, "download a model if necessary, and print the directory of its checkpoint"),
    ):
        command = add_command(commands, name, summary)
        command.add("MODEL", which, nargs="?", default="smollm2")
        command.set_defaults(run=run)


def _list(args: argparse.Namespace) -> int:
    for listing in ModelStore().listings():
        facts = [listing.description] if listing.description else []
        where = f"not downloaded yet: minivllm model fetch {listing.name}"
        if listing.path is not None:
            dtype, source, licence = listing.provenance
            facts.append(f"{dtype}, {format_bytes(listing.num_bytes)}, {source}; licence {licence}")
            where = str(listing.path)
        print("\n    ".join([listing.name, *facts, where]))
    families = ", ".join(name.removesuffix("ForCausalLM") for name in FAMILIES)
    print(f"Any other checkpoint of these families runs from its folder or the Hub: {families}.")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    listing = fetch_model(args.model)
    size = format_bytes(listing.num_bytes)
    print(f"{listing.name} ({listing.provenance}) is ready ({size}): {listing.path}")
    return 0


def _path(args: argparse.Namespace) -> int:
    print(resolve_for_transformers(args.model).resolve())
    return 0
