"""Runs the code blocks of a page as a reader would, in order, in one scratch folder.

    python            run unchanged, in its own namespace
    sh                each line run: `minivllm` in this process, tools of `SHELL` in a shell;
                      the target of `make X` must exist
    console           `$ command` lines run and their output compared; `...` matches anything
    json, yaml, toml  parsed
    others            ignored, except lines that begin with a command of `minivllm`

The scratch folder links to the repository's `docs` and `tools`. Commands run in this process where
possible: a new process that imports torch costs two seconds.
"""

import ast
import contextlib
import doctest
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path

import yaml

from minivllm.cli import build_parser, main
from support.docs.doc_blocks import ROOT, Block, blocks
from support.patience import SOON

SHELL = frozenset(
    ["python", "cat", "ls", "head", "tail", "wc", "grep", "mkdir", "cp", "test", "echo"]
)
LEFT_ALONE = frozenset(
    ["text", "diff", "html", "css", "js", "ini", "promql", "csv", "c", "cuda", "markdown"]
) | {""}
PARSERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads, "python": ast.parse}

_IN_A_SHELL = re.compile(r"[|<>;&$`*]")
_SHELL_GOES_ON = frozenset({"|", ">", ">>", "&", "&&", "||", ";", "2>"})
_TARGETS = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


class SnippetError(Exception):
    """One sentence that says what is wrong with a block."""


def faults(page: str, scratch: Path, *, slow: bool = False) -> list[str]:
    """Run the blocks of a page in `scratch`; return `LINE: what is wrong` for each failure.

    slow: run the blocks marked as slow, and the ones before them, whose files they may need.
    """
    found = []
    for name in ("docs", "tools"):
        (scratch / name).symlink_to(ROOT / name)
    with _standing_in(scratch):
        for block in blocks(page):
            try:
                _check(block, slow)
            except SnippetError as error:
                found.append(f"{block.line}: {error}")
    return found


def is_slow(page: str) -> bool:
    return any(block.mark is not None and block.mark.kind == "slow" for block in blocks(page))


def _check(block: Block, slow: bool) -> None:
    if block.language not in {"sh", "console", *PARSERS, *LEFT_ALONE}:
        raise SnippetError(f"tests/support/docs/doc_runs.py does not know {block.language!r}.")
    if block.mark is not None and not block.mark.reason:
        raise SnippetError(f"say why: <!-- {block.mark.kind}: why -->.")
    if block.title is not None:
        Path(block.title).write_text(block.text)
    if block.language in PARSERS:
        try:
            PARSERS[block.language](block.text)
        except (ValueError, SyntaxError, yaml.YAMLError) as error:
            raise SnippetError(f"this is no {block.language}: {error}") from error
    else:
        for command in _commands(block):
            _check_words(command)
    to_run = block.mark is None or (block.mark.kind == "slow" and slow)
    if to_run and block.title is None and block.language in RUNNERS:
        RUNNERS[block.language](block)


def _commands(block: Block) -> list[str]:
    """Command lines of a block, joined and without comments.

    In a text block, two spaces end a command.
    """
    if block.language == "console":
        return [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        return [line for line in (re.sub(r"(^|\s+)#\s.*$", "", s).strip() for s in lines) if line]
    return [re.split(" {2,}", line)[0] for line in lines if line.startswith("minivllm ")]


def _words(command: str) -> list[str]:
    """Words of a command, without leading variables and the folder of a virtual environment."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SnippetError(f"{command!r} is no command: {error}.") from error
    while words and re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", words[0]):
        words.pop(0)
    return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []


def _check_words(command: str) -> None:
    """Raise if our parser rejects one of our commands. The command does not run."""
    words = _words(command)
    if words[:1] == ["make"]:
        for target in words[1:]:
            if "=" not in target and not target.startswith("-") and target not in _TARGETS:
                raise SnippetError(f"the Makefile has no target {target!r}.")
    elif words[:3] == ["python", "-m", "minivllm"]:
        _parse_arguments(words[3:])
    elif words[:1] == ["minivllm"]:
        _parse_arguments(words[1:])


def _parse_arguments(words: list[str]) -> None:
    end = next((i for i, word in enumerate(words) if word in _SHELL_GOES_ON), len(words))
    words, said = words[:end], io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            build_parser(words[0] if words else None).parse_args(words)
    except SystemExit as exit_:
        if exit_.code:
            reason = said.getvalue().strip().splitlines()[-1]
            raise SnippetError(f"`minivllm {shlex.join(words)}`: {reason}") from exit_


def _run_python(block: Block) -> None:
    path = Path("block.py")
    path.write_text(block.text)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename.endswith(path.name)]
        where = f"in line {lines[-1]} of the block" if lines else "before its first line"
        raise SnippetError(f"it raises {type(error).__name__} {where}: {error}") from error
    finally:
        path.unlink()


def _run_sh(block: Block) -> None:
    for command in _commands(block):
        _output_of(command)


def _run_console(block: Block) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        got, expected = (
            "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
            for text in (_output_of(command), expected)
        )
        if not doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS):
            raise SnippetError(f"`{command}` prints:\n{got}-- the page says:\n{expected}")


RUNNERS = {"python": _run_python, "sh": _run_sh, "console": _run_console}


def _output_of(command: str) -> str:
    """Run one command line that must succeed; return stdout and stderr."""
    words = _words(command)
    if not words or words[0] == "make":
        return ""
    begins_with_ours = command.split()[0].endswith("minivllm")
    if words[0] == "minivllm" and begins_with_ours and not _IN_A_SHELL.search(command):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = main(words[1:])
        output = said.getvalue()
    elif words[0] == "minivllm" or words[0] in SHELL:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["bash", "-c", "set -o pipefail\n" + command.replace(".venv/bin/", "")],
            env=os.environ | {"PATH": path, "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SOON,
        )
        status, output = done.returncode, done.stdout
    else:
        raise SnippetError(f"no test runs {words[0]!r}: write `<!-- not run: why -->` above it.")
    if status != 0:
        raise SnippetError(f"`{command}` ends with status {status}: {output.strip()[-2000:]}")
    return output


@contextlib.contextmanager
def _standing_in(folder: Path) -> Iterator[None]:
    """Change to this folder; restore the environment and the module path afterwards."""
    environment, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    os.environ["COLUMNS"] = "120"
    sys.path.insert(0, str(folder))  # so that a block can import an earlier block's file
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
