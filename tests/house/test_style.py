"""The house style that a machine can check and ruff cannot; the rest is in CONTRIBUTING.md."""

import re
from collections import defaultdict
from pathlib import Path

from support.tool_modules import load_tool

ROOT = Path(__file__).resolve().parents[2]
DOCSTRING = re.compile(r'(#.*\n|\s)*r?"""')
TERSE = re.compile(r"^ *(?:async )?def (test_[a-z\d]*(?:_[a-z\d]+){0,2})\(", re.MULTILINE)
"""The name of a test that has fewer than four words."""
CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
LATE_IMPORT = re.compile(r"^ +(?:from [\w.]+ )?import \w", re.MULTILINE)
MOST_LATE_IMPORTS = 20
"""In all of minivllm, with those for type checkers and in examples. CONTRIBUTING.md has the rule."""
SEVERAL_VERSIONS = ("exercises/", "peer_side/")
"""Exercises hold several versions of a class, and a peer's script stands alone."""


def test_every_file_keeps_the_house_style():
    faults, homes, num_late = [], defaultdict(list), 0
    for folder in ("minivllm", "kernels", "tui", "lessons", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            file, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            if not DOCSTRING.match(text):
                faults.append(f"{file}: a docstring must say what the module is for")
            if folder == "tests":
                faults += [f"{file}: {name} is not a sentence" for name in TERSE.findall(text)]
                continue
            num_late += len(LATE_IMPORT.findall(text))
            if not any(part in file for part in SEVERAL_VERSIONS):
                for name in CLASS.findall(text):
                    homes[name].append(file)
    faults += [f"{name}: one class each, not {where}" for name, where in homes.items() if where[1:]]
    assert faults == []
    assert num_late <= MOST_LATE_IMPORTS


def test_every_room_keeps_its_budget_of_lines():
    sz = load_tool("sz.py")
    lines, budgets = sz.by_room(sz.lines_of_files()), sz.budgets()
    assert lines.keys() == budgets.keys()
    assert {room: count for room, count in lines.items() if count > budgets[room]} == {}
