"""`make mutants`: its lists fit the source, and the tool says which faults the tests let live."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.patience import SOON
from support.tool_modules import TOOLS, load_tool

ROOT = TOOLS.parent
LISTS = sorted((TOOLS / "mutants").glob("*.toml"))
CORE = {file.name for file in (ROOT / "minivllm/core").glob("*.py") if file.name != "__init__.py"}


@pytest.fixture
def tool() -> ModuleType:
    return load_tool("mutants/run.py")


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_mutant_of_a_list_fits_the_source(path: Path, tool):
    listed = tool.read_list(path)
    assert listed.must_kill >= 95 and len(listed.mutants) >= 25
    for mutant in listed.mutants:
        assert mutant.wrong.endswith("."), f"{mutant.name}: one sentence says what is wrong"


def test_every_file_of_the_core_has_mutants(tool):
    assert {Path(mutant.file).name for mutant in tool.read_list(TOOLS / "mutants/core.toml").mutants} == CORE


def a_list(tmp_path: Path, *mutants: str) -> Path:
    path = tmp_path / "some.toml"
    head = 'tests = ["tests/core/test_stop.py"]\nmust_kill = 95\n'
    path.write_text(head + "".join(f"[[mutant]]\n{mutant}\n" for mutant in mutants))
    return path


STOP = 'file = "minivllm/core/stop.py"\nwrong = "Something."\n'


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (
            'name = "gone"\nold = "no such line"\nnew = ""',
            "'gone': its `old` is in .*stop.py 0 times and must be there once",
        ),
        ('name = "vague"\nold = "return"\nnew = ""', "'vague': its `old` is in .* times and must be there once"),
        ('name = "idle"\nold = "token_id in params"\nnew = "token_id in params"', "`old` and `new` are the same"),
        ('name = "broken"\nold = "token_id in params"\nnew = "token_id in ("', "'broken' is no Python"),
        ('name = "odd"\nold = "x"\nnew = "y"\nwhy = "?"', "unexpected keyword argument 'why'"),
    ],
)
def test_a_mutant_that_does_not_fit_is_refused_and_says_why(mutant: str, said: str, tmp_path: Path, tool):
    with pytest.raises(tool.ListError, match=said):
        tool.read_list(a_list(tmp_path, mutant + "\n" + STOP))


@pytest.mark.parametrize(
    ("killed_by", "explained", "passes"),
    [
        ("a test", "", True),
        (None, "", False),
        (None, "equivalent", True),
        ("a test", "equivalent", False),
        (None, "survives", False),
    ],
)
def test_a_list_passes_if_enough_are_killed_and_what_lives_is_explained(
    killed_by: str | None, explained: str, passes: bool, tool, capsys: pytest.CaptureFixture
):
    mutant = tool.Mutant("one", "a.py", "x", "y", "Wrong.", **({explained: "because"} if explained else {}))
    assert tool.passes([tool.Outcome(mutant, killed_by, 1.0)], 95.0) is passes
    assert "killed" in capsys.readouterr().out


@pytest.mark.slow
def test_the_tool_tells_the_killed_from_the_living_and_leaves_the_source_alone(tmp_path: Path):
    source = (ROOT / "minivllm/core/stop.py").read_text()
    path = a_list(
        tmp_path,
        'name = "noticed"\nold = "token_id in params.stop_token_ids"\nnew = "token_id not in params.stop_token_ids"\n'
        + STOP,
        'name = "let live"\nold = "How a sequence ended."\nnew = "How it ended."\n' + STOP,
        'name = "a word"\nold = "Whether the last token"\nnew = "If the last token"\nequivalent = "a docstring"\n'
        + STOP,
    )
    command = [sys.executable, TOOLS / "mutants/run.py", "--list-file", path, "--workers", "1"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert ran.returncode == 1, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[1].startswith("killed    noticed  <- tests/core/test_stop.py::test_")
    assert lines[2].startswith("SURVIVED  let live (minivllm/core/stop.py): NOT EXPLAINED. Something.")
    assert lines[3].startswith("same      a word: a docstring")
    assert lines[4] == "1 of 2 killed: 50.0 %, and 1 that change nothing (at least 95 %)"
    assert "Not as the list says: let live." in lines[5]
    assert (ROOT / "minivllm/core/stop.py").read_text() == source
