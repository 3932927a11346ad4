"""`make mutants`: its lists fit the source, and those of the heart cover every file."""

import pytest
from support.tool_modules import TOOLS, load_tool


@pytest.mark.parametrize("room", ["server", "tui"])
def test_every_mutant_of_a_list_fits_the_source(room):
    assert load_tool("mutants/run.py").read_list(TOOLS / f"mutants/{room}.toml").must_kill >= 90


@pytest.mark.parametrize("room", ["core", "engine", "speculation"])
def test_every_mutant_of_a_list_fits_the_source_and_every_file_has_one(room):
    listed = load_tool("mutants/run.py").read_list(TOOLS / f"mutants/{room}.toml")
    assert listed.must_kill >= 95
    sources = (TOOLS.parent / "minivllm" / room).rglob("*.py")
    assert {TOOLS.parent / mutant.file for mutant in listed.mutants} >= {
        file for file in sources if file.name != "__init__.py"
    }
