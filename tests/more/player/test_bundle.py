"""The player's script: small, from one table of words, and without other hosts."""

import gzip
import json
import re

import pytest
from support.node import find_node, player_modules, run_node

from minivllm.cli.recordings.bundle import player_script
from minivllm.tui.draw.theme import COLOURS
from minivllm.tui.state.phrases import EVENT_WORDS, PHRASES


def test_the_player_is_small_asks_no_other_host_and_runs_no_text_as_code():
    script = player_script()
    assert len(gzip.compress(script.encode())) < 60_000
    assert set(re.findall(r"https?://[\w./]+", script)) <= {"http://www.w3.org/2000/svg"}
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
