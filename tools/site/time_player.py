#!/usr/bin/env python3
"""Measures how fast the site's player steps and seeks in a recording, in a Chromium.

    tools/site/time_player.py run.jsonl

A time is that of one move, which plays events and changes the page, and of the layout after it. The
screen is not drawn. The figures are medians and maxima over all steps, and over 200 seeks.
"""

import argparse
import os
import shutil
import statistics
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from minivllm.cli.recordings.bundle import player_script

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
    parser.add_argument("log", type=Path, metavar="LOG", help="a recording")
    log = parser.parse_args().log
    executable = shutil.which(os.environ.get("MINIVLLM_CHROMIUM", "chromium"))
    if executable is None:
        sys.exit("There is no Chromium: install one, or give its path in MINIVLLM_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_content('<div id="here"></div>')
        page.add_script_tag(content=player_script())
        count, times = page.evaluate(_TIMES, log.read_text(encoding="utf-8"))
        browser.close()
    print(f"{log}: {count:,} events")
    for name, found in times.items():
        print(f"{name:>5}  median {statistics.median(found):6.1f} ms  max {max(found):6.1f} ms")


if __name__ == "__main__":
    main()
