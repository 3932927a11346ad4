"""The player's script: small, and without other hosts."""

import gzip
import re

from minivllm.cli.recordings.bundle import player_script


def test_the_player_is_small_asks_no_other_host_and_runs_no_text_as_code():
    script = player_script()
    assert len(gzip.compress(script.encode())) < 60_000
    assert set(re.findall(r"https?://[\w./]+", script)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|eval|innerHTML|document\.write)\b", script)
