"""`make mutants`: its lists fit the source, and those of the heart cover every file."""

import pytest
from support.tool_modules import TOOLS, load_tool

HEART = ("core", "engine", "speculation")


@pytest.mark.parametrize("room", [*HEART, "server", "tui"])
def test_every_mutant_of_a_list_fits_the_source_and_every_file_of_the_heart_has_one(room):
    listed = load_tool("mutants/run.py").read_list(TOOLS / f"mutants/{room}.toml")
    assert listed.must_kill >= (95 if room in HEART else 90)
    files = {TOOLS.parent / mutant.file for mutant in listed.mutants}
    sources = (TOOLS.parent / "minivllm" / room).rglob("*.py") if room in HEART else ()
    assert files >= {file for file in sources if file.name != "__init__.py"}
