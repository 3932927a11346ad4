"""The `minivllm` command: finds the subcommand, runs it, and prints an error as one line.

Each subcommand is a module with `add_arguments(parser)` and `run(args) -> int`; one with actions
sets `run` for each. Only the requested module is imported, so that `minivllm --help` does not wait
for torch. A traceback, in place of an error's one sentence, means a bug.

Exit status: 0 success, 1 failure, 2 wrong usage, 130 Ctrl-C, 141 the output pipe was closed
(`minivllm ... | head`).
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from minivllm import __version__
from minivllm.errors import ConfigError, ExerciseError, InvalidSamplingParamsError, MinivllmError

GROUPS = {
    "Watch": {
        "demo": ("serving", "watch the engine serve several users at once, in the dashboard"),
        "tour": ("serving", "six stops on a running engine, in ninety seconds"),
        "live": ("serving", "run your own engine in the dashboard: ask it, pause it, step it"),
        "replay": ("recordings", "play a recording in the dashboard, forward and back"),
        "attach": ("recordings", "watch an engine in another process"),
    },
    "Learn": {
        "lesson": ("course", "learn how a serving engine works, with this engine running"),
        "exercise": ("course", "write a part of the engine, and run the engine with it"),
    },
    "Use": {
        "chat": ("serving", "chat with a model in the terminal"),
        "generate": ("serving", "complete one or many prompts"),
        "serve": ("serving", "serve a model over HTTP, for clients of OpenAI and vLLM"),
        "vllm-events": ("serving", "serve the recording that a real vLLM writes, for attach"),
        "model": ("serving", "list, fetch and find models"),
        "doctor": ("course", "check whether this machine can run the course"),
        "to-vllm": ("lab", "print the same configuration for vLLM: a command and a script"),
    },
    "Measure": {
        "compare": ("lab", "run the same requests with two configurations of the engine"),
        "twin": ("lab", "compare vLLM's scheduler with ours on a recording's requests"),
        "simulate": ("lab", "predict latency and throughput, with modelled step times"),
        "bench": ("lab", "measure the engine"),
    },
    "Pictures and data": {
        "shot": ("recordings", "draw a picture of any moment of a recording"),
        "once": ("recordings", "print an engine's state at the end of a recording or a step"),
        "export": ("recordings", "convert a recording into a trace for Perfetto"),
    },
}  # fmt: skip
"""Group in the help -> a subcommand (with underscores, its module) -> its folder and summary."""
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}

ABOUT = "A small, fast LLM inference engine that shows its decisions as it runs."
NEW_HERE = "New here? minivllm tour, then minivllm lesson."
USAGE_ERROR = 2
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13


def build_parser(command: str | None = None, *, whole: bool = True) -> "Parser":
    """Only `command` gets its options, as that imports its module; if `whole`, rare ones, too."""
    listed = "".join(
        f"{title}\n" + "".join(f"  {name:<11}  {says}\n" for name, (_, says) in group.items())
        for title, group in GROUPS.items()
    )
    parser = Parser(
        prog="minivllm",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description=ABOUT,
        epilog=f"{listed}\n{NEW_HERE}",  # fits into a terminal of 36 rows
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    version = f"minivllm {__version__}"
    parser.add_argument("--version", action="version", version=version, help=argparse.SUPPRESS)
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog=parser.prog
    )
    for name, (_, summary) in COMMANDS.items():
        subparser = add_command(subparsers, name, summary)
        if name == command:
            module = module_of(name)
            subparser.set_defaults(run=getattr(module, "run", None))
            parser.in_flags = subparser.in_flags
            module.add_arguments(subparser)
            if not whole:
                subparser.hide_rare()
    return parser


def module_of(command: str) -> ModuleType:
    """Import a subcommand's module."""
    folder, _ = COMMANDS[command]
    return import_module(f"minivllm.cli.{folder}.{command.replace('-', '_')}")


def add_command(commands: "argparse._SubParsersAction", name: str, summary: str) -> "Parser":
    about = f"{summary[0].upper()}{summary[1:]}."
    return commands.add_parser(name, help=summary, description=about, allow_abbrev=False)


class Parser(argparse.ArgumentParser):
    rare: Collection[str] = ()
    """Options that only `--help=all` shows, by `dest`."""

    def add(self, spec: str, help: str, **more: Any) -> None:
        add_option(self, spec, help, **more)

    def hide_rare(self) -> None:
        for action in self._actions:
            if action.dest in self.rare:
                action.help = argparse.SUPPRESS

    def in_flags(self, message: str) -> str:
        """Name the options of this command as they are typed: `--block-size` for `block_size`."""
        flags = {it.dest: it.option_strings[0] for it in self._actions if it.option_strings}
        return re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda name: flags.get(name[0], name[0]), message)


def add_option(parser: argparse._ActionsContainer, spec: str, help: str, **more: Any) -> None:
    """Add an option (`--record FILE`), a flag (`--json`) or an argument (`LOG`).

    The metavars N and X stand for numbers. The help names the default, if there is one.
    """
    *names, metavar = spec.split()
    if not spec.startswith("-"):
        names = [more.pop("dest", metavar.lower())]
    elif metavar.startswith("-"):
        names.append(metavar)
        metavar = None
        if not more.keys() & {"action", "choices", "type"}:
            more["action"] = "store_true"
    if metavar is not None:
        more["metavar"] = metavar
    if metavar in ("N", "X"):
        more.setdefault("type", int if metavar == "N" else float)
    if more.get("default") not in (None, [], argparse.SUPPRESS):
        help += " (default: %(default)s)"
    parser.add_argument(*names, help=help, **more)


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else list(argv)
    return status_of(lambda: _run(argv))


def status_of(run: Callable[[], int]) -> int:
    """Call `run`, print an expected error as one line, and return the exit status."""
    try:
        status = run()
        # Notice a closed pipe now and not at the interpreter's exit.
        sys.stdout.flush()
        return status
    except MinivllmError as error:
        wrong = isinstance(error, ConfigError | InvalidSamplingParamsError | ExerciseError)
        return _fail(error, USAGE_ERROR if wrong else 1)
    except BrokenPipeError:
        # Discard buffered output. Otherwise Python prints an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        reason = error.strerror or error
        return _fail(f"{error.filename}: {reason}." if error.filename else f"{reason}.", 1)
    except KeyboardInterrupt as interrupt:
        _say_notes(interrupt)
        return INTERRUPTED


def let_waiting_threads_sleep(argv: Sequence[str]) -> None:
    """Let torch's OpenMP threads spin for only some ten microseconds before they sleep.

    By default they spin for milliseconds, which other work could use. Nothing changes if torch has
    read the variable, if the user has set one of the two, or for `bench`: it can run peers.
    """
    is_set = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ)
    if argv[:1] != ["bench"] and "torch" not in sys.modules and not is_set:
        os.environ["GOMP_SPINCOUNT"] = "2000"


def _run(argv: list[str]) -> int:
    let_waiting_threads_sleep(argv)
    if not argv:
        rows = (f"  {title:<17}  {', '.join(group)}\n" for title, group in GROUPS.items())
        end = f"{NEW_HERE}\nminivllm --help says what each of them does."
        print(f"{ABOUT}\n\n{''.join(rows)}\n{end}", file=sys.stderr)
        return USAGE_ERROR
    # Before the subcommand, only --help and --version are allowed.
    parser = build_parser(argv[0], whole="--help=all" in argv)  # as in vLLM
    try:
        args = parser.parse_args(["--help" if word == "--help=all" else word for word in argv])
        return args.run(args)
    except MinivllmError as error:
        error.args = (parser.in_flags(str(error)),)
        raise
    # Argparse has printed help, version or usage, or a signal has ended the dashboard.
    except SystemExit as exit_:
        _say_notes(exit_)
        return int(exit_.code or 0)


def _fail(error: object, status: int) -> int:
    print(f"minivllm: {error}", file=sys.stderr)
    _say_notes(error)
    return status


def _say_notes(error: object) -> None:
    for sentence in getattr(error, "__notes__", ()):
        print(f"minivllm: {sentence}", file=sys.stderr)
