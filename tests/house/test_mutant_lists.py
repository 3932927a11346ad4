"""`make mutants`: its lists fit the source, and the tool says which faults the tests let live."""

from pathlib import Path
from types import ModuleType

import pytest
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
    assert {
        Path(mutant.file).name for mutant in tool.read_list(TOOLS / "mutants/core.toml").mutants
    } == CORE
