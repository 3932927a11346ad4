"""The player's script: small, from one table of words, and without other hosts."""

import gzip
import json
import re

import pytest
from support.node import find_node, player_modules, run_node

from minivllm.cli.recordings.bundle import bundle, player_script
from minivllm.tui.draw.theme import COLOURS
from minivllm.tui.state.phrases import EVENT_WORDS, PHRASES


def test_the_player_takes_less_than_60_kb_compressed():
    assert len(gzip.compress(player_script().encode())) < 60_000


def test_the_player_asks_no_other_host_and_runs_no_text_as_code():
    script = player_script()
    addresses = set(re.findall(r"https?://[\w./]+", script)) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert not re.search(r"\b(fetch|XMLHttpRequest|eval|innerHTML|document\.write)\b", script)


@pytest.mark.skipif(find_node() is None, reason="no node, neither as a wheel nor here")
def test_words_and_colours_come_from_the_dashboards_table(tmp_path):
    script = tmp_path / "print.mjs"
    names = "PHRASES, EVENT_WORDS, COLOURS"
    script.write_text(
        f"import {{ {names} }} from {json.dumps((player_modules(tmp_path) / 'labels.js').as_uri())};\n"
        f"console.log(JSON.stringify([{names}]));\n"
    )
    phrases, words, colours = json.loads(run_node(script))
    assert phrases == PHRASES
    assert {key: tuple(value) for key, value in words.items()} == EVENT_WORDS
    assert {name: tuple(pair) for name, pair in colours.items()} == COLOURS


def test_two_modules_with_one_name_are_refused():
    modules = {
        "embed.js": 'import { a } from "./other.js";\nfunction twice() {}\n',
        "other.js": "export function a() {}\nfunction twice() {}\n",
    }
    with pytest.raises(ValueError, match="twice: rename one"):
        bundle(modules)
