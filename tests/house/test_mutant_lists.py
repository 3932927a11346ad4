"""`make mutants`: its lists fit the source and cover every file of their rooms."""

import pytest
from support.tool_modules import TOOLS, load_tool

ROOT = TOOLS.parent
LISTS = sorted((TOOLS / "mutants").glob("*.toml"))
WITHOUT_BEHAVIOUR = {"__init__.py", "base.py", "runner.py"}
"""Files with docstrings and a protocol only."""


def test_the_core_the_engine_and_speculation_have_a_list_each():
    assert [path.stem for path in LISTS] == ["core", "engine", "speculation"]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_mutant_of_a_list_fits_the_source_and_every_file_has_one(path):
    listed = load_tool("mutants/run.py").read_list(path)
    assert listed.must_kill >= 95
    room = ROOT / "minivllm" / path.stem
    assert {ROOT / one.file for one in listed.mutants} == {
        file for file in room.rglob("*.py") if file.name not in WITHOUT_BEHAVIOUR
    }
