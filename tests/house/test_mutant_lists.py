"""`make mutants`: its lists fit the source and cover every file of the core."""

from pathlib import Path

import pytest
from support.tool_modules import TOOLS, load_tool

ROOT = TOOLS.parent
LISTS = sorted((TOOLS / "mutants").glob("*.toml"))
CORE = {file.name for file in (ROOT / "minivllm/core").glob("*.py") if file.name != "__init__.py"}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_mutant_of_a_list_fits_the_source_and_every_core_file_has_one(path: Path):
    listed = load_tool("mutants/run.py").read_list(path)
    assert listed.must_kill >= 95
    assert path.stem != "core" or {Path(one.file).name for one in listed.mutants} == CORE
