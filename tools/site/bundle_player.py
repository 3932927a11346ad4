#!/usr/bin/env python3
"""Makes the site's player, one script, from the modules in docs/assets/player/src.

    tools/site/bundle_player.py          # write labels.js and the bundle, in place
    tools/site/bundle_player.py --check  # only say whether both are up to date

The modules are plain JavaScript that browsers and node load as they are. The bundle is their text,
each after those that it imports, inside one function: a page opened from disk cannot load modules.
So a name at the top of a module must be unique among all modules, and an import cannot rename.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from minivllm.events.recording.event_index import NOTABLE_KINDS
from minivllm.tui.draw.theme import COLOURS
from minivllm.tui.state.phrases import EVENT_WORDS, PHRASES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs/assets/player/src"
LABELS = SOURCES / "labels.js"
BUNDLE = ROOT / "minivllm/cli/recordings/player.js"
"""In the package, because `minivllm replay --web` needs it; the site has a copy."""
ENTRY = "embed.js"

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.M)
_TOP = re.compile(r"^(?:async )?(?:function|class|const|let) (\w+)", re.M)
_COMMENT = re.compile(r"^\s*//.*\n", re.M)


def labels() -> str:
    """The module with the dashboard's words and colours."""
    kinds = sorted(kind.__struct_config__.tag for kind in NOTABLE_KINDS)
    tables = {
        "PHRASES": dict(PHRASES),
        "EVENT_WORDS": {key: list(words) for key, words in EVENT_WORDS.items()},
        "NOTABLE": dict.fromkeys(kinds, True),
        "COLOURS": COLOURS,
    }
    lines = [
        "// Words and colours of the dashboard. `tools/site/bundle_player.py` writes this file.\n"
    ]
    for name, table in tables.items():
        entries = "".join(
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)},\n"
            for key, value in table.items()
        )
        lines.append(f"\nexport const {name} = {{\n{entries}}};\n")
    return "".join(lines)


def bundle() -> str:
    """All modules as one script. Raises `ValueError` if two modules use one name."""
    done: dict[str, str] = {}
    _add(ENTRY, done)
    owners: dict[str, str] = {}
    for module, text in done.items():
        for name in _TOP.findall(text):
            if name in owners:
                raise ValueError(f"{module} and {owners[name]} both have {name}: rename one.")
            owners[name] = module
    return (
        "// The player of minivllm's site. `tools/site/bundle_player.py` writes this file from\n"
        "// docs/assets/player/src, where the comments are.\n"
        f'(() => {{\n"use strict";\n{"".join(done.values())}}})();\n'
    )


def _add(name: str, done: dict[str, str]) -> None:
    text = (SOURCES / name).read_text(encoding="utf-8")
    if name.endswith(".css"):
        sheet = re.sub(r"\s*\n\s*", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()
        done[name] = f"const STYLE_SHEET = {json.dumps(sheet)};\n"
        return
    for needed in _IMPORT.findall(text):
        if needed not in done:
            _add(needed, done)
    own = _IMPORT.sub("", text)
    done[name] = _COMMENT.sub("", re.sub(r"^export ", "", own, flags=re.M)).lstrip("\n")


def stale() -> list[Path]:
    """The generated files that are not up to date."""
    made = {LABELS: labels, BUNDLE: bundle}
    return [
        path
        for path, make in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != make()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the site's player from its modules.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    if parser.parse_args().check:
        for path in stale():
            print(f"{path.relative_to(ROOT)} is stale: tools/site/bundle_player.py writes it.")
        return 1 if stale() else 0
    LABELS.write_text(labels(), encoding="utf-8")
    BUNDLE.write_text(bundle(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
