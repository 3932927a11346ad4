"""`player_script`: the player as one script, made of the modules in `player/`.

The modules are plain JavaScript that browsers and node load as they are. The script is their text,
each after those that it imports, inside one function: a page opened from disk cannot load modules.
So a name at the top of a module must be unique among all modules, and an import cannot rename.

`labels.js` is not a file: it is the dashboard's table of words and colours.
"""

import json
import re
from pathlib import Path

from minivllm import tui
from minivllm.events.recording.event_index import NOTABLE_KINDS
from minivllm.events.types import PASSED_REASONS
from minivllm.tui.state.decisions import EVENT_WORDS, NARRATED, PHRASES

SOURCES = Path(__file__).with_name("player")
ENTRY = "embed.js"
LABELS = "labels.js"

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.M)
_COMMENT = re.compile(r"^\s*//.*\n", re.M)
_SPACE = re.compile(r"^\s+", re.M)
"""Empty lines and indentation. No module has a string over several lines."""


def player_script() -> str:
    return bundle(modules())


def modules() -> dict[str, str]:
    """The text of each module and of the style sheet, by its file name."""
    files = [path for path in SOURCES.iterdir() if path.suffix in (".js", ".css")]
    return {LABELS: _labels(), **{path.name: path.read_text(encoding="utf-8") for path in files}}


def bundle(modules: dict[str, str]) -> str:
    """Return all modules as one script."""
    done: dict[str, str] = {}
    _add(ENTRY, modules, done)
    text = _SPACE.sub("", "".join(done.values()))
    return f'// The player of minivllm.\n(() => {{\n"use strict";\n{text}}})();\n'


def _add(name: str, modules: dict[str, str], done: dict[str, str]) -> None:
    text = modules[name]
    if name.endswith(".css"):
        sheet = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
        sheet = re.sub(r" ?([{};,]) ?", r"\1", sheet).strip()
        done[name] = f"const STYLE_SHEET = {json.dumps(sheet)};\n"
        return
    for needed in _IMPORT.findall(text):
        if needed not in done:
            _add(needed, modules, done)
    own = _IMPORT.sub("", text)
    done[name] = _COMMENT.sub("", re.sub(r"^export ", "", own, flags=re.M)).lstrip("\n")


def _labels() -> str:
    kinds = sorted(kind.__struct_config__.tag for kind in NOTABLE_KINDS)
    tables = {
        "PHRASES": dict(PHRASES),
        "EVENT_WORDS": dict(EVENT_WORDS),
        "NARRATED": dict(NARRATED),
        "NOTABLE": dict.fromkeys(kinds, True),
        "PASSED_REASONS": dict.fromkeys(sorted(PASSED_REASONS), True),
        "COLOURS": tui.COLOURS,
    }
    return "".join(
        f"export const {name} = {json.dumps(table, ensure_ascii=False)};\n"
        for name, table in tables.items()
    )
