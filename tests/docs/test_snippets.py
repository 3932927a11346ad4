"""Every code block of README, CONTRIBUTING and docs does what the page says, or says why it is not run."""

from pathlib import Path

import pytest
from support.docs.doc_blocks import ROOT, pages
from support.docs.doc_runs import faults, is_slow


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# What stands in cli.md is how commands are written, `[OPTIONS]` and all, and it is made from the parser itself.
PAGES = [page for page in pages() if name(page) != "docs/reference/cli.md"]


def told(page: Path, found: list[str]) -> str:
    return "\n".join(f"{name(page)}:{fault}" for fault in found)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path):
    found = faults(page.read_text(), tmp_path)
    assert not found, told(page, found)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if is_slow(page.read_text())], ids=name)
def test_the_slow_code_of_a_page_runs(page: Path, tmp_path: Path):
    found = faults(page.read_text(), tmp_path, slow=True)
    assert not found, told(page, found)


# ---- and the check can fail ----


def fenced(language: str, text: str, mark: str = "") -> str:
    return f"A page.\n\n{mark}\n```{language}\n{text}\n```\n"


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (fenced("console", "$ minivllm --version\nminivllm 99"), "prints something else"),
        (fenced("sh", "minivllm once nowhere.jsonl"), "ends with status 1: minivllm: nowhere.jsonl"),
        (fenced("sh", "python -c 'raise SystemExit(3)'"), "ends with status 3"),
        (fenced("sh", "minivllm demo --headles"), "cannot be parsed: minivllm: error: unrecognized arguments"),
        (fenced("sh", "minivllm demo --headles", "<!-- not run: takes long -->"), "cannot be parsed"),
        (fenced("sh", "textual serve 'minivllm replays x'", "<!-- not run: serves -->"), "cannot be parsed"),
        (fenced("", "minivllm lesson 3 --plane    in a terminal"), "cannot be parsed"),
        (fenced("sh", "make pizza"), "the Makefile has no target 'pizza'"),
        (fenced("sh", "curl http://localhost"), "no test runs 'curl'; write `<!-- not run: why -->`"),
        (fenced("sh", "curl x", "<!-- not run: -->"), "needs a reason"),
        (fenced("python", "x = 1\n1 / 0"), "it raises ZeroDivisionError in line 2 of the block"),
        (fenced("python", "x = (", "<!-- not run: needs a server -->"), "this is no Python"),
        (fenced("json", "{'a': 1}"), "this is no json"),
        (fenced("yaml", "a: [1"), "this is no yaml"),
        (fenced("toml", "a = "), "this is no toml"),
        (fenced("pyhton", "1"), "no test knows the language 'pyhton'; write one of python, sh"),
        ("1. In a list:\n\n    ```sh\n    make pizza\n    ```\n", "no target 'pizza'"),
        ("\n\nIn a sentence, `minivllm replay --wiht OTHER`.\n", "`minivllm replay` has no option --wiht"),
        ("\n\nIn a sentence, `minivllm rpelay FILE`.\n", "there is no command 'rpelay'"),
    ],
)
def test_a_block_that_is_wrong_is_found(page: str, fault: str, tmp_path: Path):
    (found,) = faults(page, tmp_path)
    line, _, sentence = found.partition(": ")
    assert fault in sentence
    assert int(line) in {3, 4, 5}


@pytest.mark.parametrize(
    "page",
    [
        fenced("console", "$ minivllm --version\nminivllm ..."),
        fenced("sh", "minivllm export docs/assets/traces/burst.jsonl --perfetto x.json  # a comment\nls x.json"),
        fenced("sh", "minivllm once docs/assets/traces/burst.jsonl --json \\\n  | head -1 > x.json"),
        fenced("sh", "curl x", "<!-- not run: needs the network -->"),
        fenced("python", "while True: pass", "<!-- slow: for ever -->"),
        fenced('python title="a.py"', "X = 3") + fenced("python", "import a\nassert a.X == 3"),
        fenced('python title="a.py"', "X = 4") + fenced("python", "import a\nassert a.X == 4"),
        fenced("json", '{"a": 1}'),
        "In a sentence, `minivllm replay FILE --with OTHER`, `minivllm bench NAME` and `minivllm bench core --json`.\n",
    ],
)
def test_a_block_that_is_right_is_let_pass(page: str, tmp_path: Path):
    assert faults(page, tmp_path) == []
