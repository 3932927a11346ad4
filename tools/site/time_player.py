#!/usr/bin/env python3
"""Measures how fast the site's player steps and seeks in a recording, in a Chromium.

    tools/site/time_player.py [run.jsonl]

Without a file, a simulated run of more than 5,000 events is recorded: 16 slots, all busy.
A time is that of one move, which plays events and changes the page, and of the layout after it. The
screen is not drawn. The figures are over all steps, and over 200 seeks.
"""

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from minivllm.cli.recordings.bundle import player_script

BUSY_RUN = (
    "simulate --requests 14 --rate 8 --max-num-seqs 16 --num-gpu-blocks-override 128"
    " --random-prefix-len 64 --prefix-groups 4 --random-range-ratio 0.5 --record"
)
_TIMES = """text => {
    const element = document.getElementById("here"), now = () => performance.now()
    const timed = act => { const from = now(); act(); element.offsetHeight; return now() - from }
    let player
    const load = [timed(() => { player = mountPlayer(element, {recordings: [text]}) })]
    const places = player.moments.length
    const step = Array.from({length: places}, () => timed(() => player.step(1)))
    const seek = Array.from({length: 200}, (_, k) =>
        timed(() => player.moveTo(((k + 1) * 7919) % places)))
    return [player.tracks[0].events.length, {load, step, seek}]
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the player's steps and seeks.")
    parser.add_argument("log", type=Path, nargs="?", metavar="LOG", help="a recording")
    log = parser.parse_args().log
    with tempfile.TemporaryDirectory() as folder:
        text = (log or record(Path(folder))).read_text(encoding="utf-8")
    before = os.getloadavg()[0]
    count, times = measure(text)
    print(f"{log or 'a simulated run'}: {count:,} events; load of the machine {before:.1f}")
    for name, found in times.items():
        middle, high = statistics.median(found), sorted(found)[int(0.95 * (len(found) - 1))]
        print(f"{name:>5}  median {middle:6.1f} ms  p95 {high:6.1f} ms  max {max(found):6.1f} ms")


def record(folder: Path) -> Path:
    log = folder / "busy.jsonl"
    command = [sys.executable, "-m", "minivllm", *shlex.split(BUSY_RUN), str(log)]
    subprocess.run(command, check=True, capture_output=True)
    return log


def measure(text: str) -> tuple[int, dict[str, list[float]]]:
    executable = shutil.which(os.environ.get("MINIVLLM_CHROMIUM", "chromium"))
    if executable is None:
        sys.exit("There is no Chromium: install one, or give its path in MINIVLLM_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_content('<div id="here"></div>')
        page.add_script_tag(content=player_script())
        found = page.evaluate(_TIMES, text)
        browser.close()
    return found


if __name__ == "__main__":
    main()
