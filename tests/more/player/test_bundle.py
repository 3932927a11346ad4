"""The player's script: small, and without other hosts."""

import gzip
import re

from minivllm.cli.recordings.bundle import modules, player_script


def test_the_player_is_small_asks_no_other_host_and_runs_no_text_as_code():
    script = player_script()
    assert len(gzip.compress(script.encode())) < 60_000
    assert set(re.findall(r"https?://[\w./]+", script)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|eval|innerHTML|document\.write)\b", script)


def test_no_name_is_used_in_two_modules_which_become_one_script():
    top = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.M)
    names = [name for text in modules().values() for name in top.findall(text)]
    assert len(names) == len(set(names)) > 100
