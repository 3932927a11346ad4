#!/usr/bin/env python3
"""Measures how fast the site's player steps and seeks in a recording, in a Chromium.

    tools/site/time_player.py [run.jsonl]
    tools/site/time_player.py --page site/index.html

Without a file, a simulated run of more than 5,000 events is recorded: 16 slots, all busy.
A time is that of one move, which plays events and changes the page, and of the layout after it. The
screen is not drawn. The figures are over all steps, and over 200 seeks.

With `--page`: how long after its opening a page shows its player, plays, and answers a key. The
page is opened from disk, five times, each time in a new browser.
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

from playwright.sync_api import Browser, Playwright, sync_playwright

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
_OPENING = """(() => {
    const times = window.openingTimes = {}
    const look = () => {
        const label = document.querySelector(".p-step"), now = performance.now()
        if (label && !times.first) Object.assign(times, {first: label.textContent, shown: now})
        if (!label || label.textContent === times.first) return requestAnimationFrame(look)
        times.plays = now
        const player = document.querySelector(".p-player"), before = label.textContent
        player.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}))
        player.offsetHeight
        if (label.textContent !== before) times.answers = performance.now()
    }
    requestAnimationFrame(look)
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the player's steps and seeks.")
    parser.add_argument("log", type=Path, nargs="?", metavar="LOG", help="a recording")
    parser.add_argument("--page", type=Path, help="a page of the built site: measure its opening")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    if options.page:
        title, times = f"{options.page} from disk", opening(options.page)
    else:
        with tempfile.TemporaryDirectory() as folder:
            text = (options.log or record(Path(folder))).read_text(encoding="utf-8")
        count, times = measure(text)
        title = f"{options.log or 'a simulated run'}: {count:,} events"
    print(f"{title}; load of the machine {before:.1f}")
    for name, found in times.items():
        middle, high = statistics.median(found), sorted(found)[int(0.95 * (len(found) - 1))]
        print(f"{name:>7}  median {middle:6.1f} ms  p95 {high:6.1f} ms  max {max(found):6.1f} ms")


def record(folder: Path) -> Path:
    log = folder / "busy.jsonl"
    command = [sys.executable, "-m", "minivllm", *shlex.split(BUSY_RUN), str(log)]
    subprocess.run(command, check=True, capture_output=True)
    return log


def measure(text: str) -> tuple[int, dict[str, list[float]]]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_content('<div id="here"></div>')
        page.add_script_tag(content=player_script())
        found = page.evaluate(_TIMES, text)
        browser.close()
    return found


def opening(file: Path, runs: int = 5) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"shown": [], "plays": [], "answers": []}
    with sync_playwright() as playwright:
        for _ in range(runs):
            browser = launch(playwright)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.add_init_script(_OPENING)
            page.goto(file.resolve().as_uri())
            page.wait_for_function("openingTimes.answers")
            for name, times in found.items():
                times.append(page.evaluate(f"openingTimes.{name}"))
            browser.close()
    return found


def launch(playwright: Playwright) -> Browser:
    executable = shutil.which(os.environ.get("MINIVLLM_CHROMIUM", "chromium"))
    if executable is None:
        sys.exit("There is no Chromium: install one, or give its path in MINIVLLM_CHROMIUM.")
    return playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])


if __name__ == "__main__":
    main()
