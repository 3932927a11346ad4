#!/usr/bin/env python3
"""Draws the animation of the home page and the README: the dashboard plays a committed recording.

    tools/pictures/make_hero.py                  # docs/assets/hero.svg and hero-light.svg;
                                                   `make pictures` does the same
    tools/pictures/make_hero.py --out /tmp/x     # in another folder

The animation shows every fifth step of the recording shared-prefix, two steps per
second. The SVG has no script: CSS shows each element at the right time. If the reader prefers
reduced motion, or if the viewer cannot animate, the picture shows step STILL.
"""

import argparse
import asyncio
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.portable import standalone
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS
from minivllm.tui.time.transport import STEPS_PER_SECOND

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "docs/assets/recordings/shared-prefix.jsonl"
PICTURES = {"hero.svg": DARK.name, "hero-light.svg": LIGHT.name}
SIZE = (100, 30)
SPEED = 1.0
STRIDE = 5
STEPS = range(1, 181, STRIDE)
"""From the first prefill to the stories of those who had to wait for a slot."""
STILL = 111
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True)
class SvgElement:
    """A rectangle or a run of characters, with position and style."""

    is_text: bool
    svg: str


class _StillApp(DashboardApp):
    """A dashboard without a clock, so that frames are the same on any machine."""

    CSS_PATH = Path(inspect.getfile(DashboardApp)).with_name(DashboardApp.CSS_PATH)

    def _frame(self) -> None:
        """Do nothing: no new events and no playback."""


async def draw_frames(theme: str) -> list[str]:
    source = ReplaySource(str(RECORDING), codec=MODELS)
    while source.poll(1.0):
        pass
    app = _StillApp(source, state="paused")
    app.theme = theme
    frames = []
    async with app.run_test(size=SIZE) as pilot:
        transport = app.context.transport
        transport.speed = SPEED
        for step in STEPS:
            transport.to_step(step)
            transport.play()
            app.draw()
            await pilot.pause()
            frames.append(standalone(app.export_screenshot(title="minivllm")))
    return frames


def elements_of(svg: str, styles: dict[str, str]) -> list[SvgElement]:
    """The elements inside a frame's window. Each new style gets a name in `styles`."""
    declared = dict(re.findall(r"\.terminal-\d+-(r\d+) \{ (.*?) \}", svg))
    window = next(
        node for node in ElementTree.fromstring(svg).iter(f"{SVG}g") if "clip-path" in node.attrib
    )
    elements = []
    for node in window.iter():
        at = f'x="{node.get("x")}" y="{node.get("y")}"'
        if node.tag == f"{SVG}rect":
            size = f'width="{node.get("width")}" height="{node.get("height")}"'
            elements.append(SvgElement(False, f'<rect fill="{node.get("fill")}" {at} {size}/>'))
        elif node.tag == f"{SVG}text" and node.text.strip("\n\xa0 "):
            style = styles.setdefault(
                declared[node.get("class").rpartition("-")[2]], f"s{len(styles)}"
            )
            text = escape(node.text)
            elements.append(
                SvgElement(
                    True,
                    f'<text class="{style}" {at}'
                    f' textLength="{node.get("textLength")}">{text}</text>',
                )
            )
    return elements


def spans_of(frames: list[list[SvgElement]]) -> dict[tuple[int, int], list[SvgElement]]:
    """Map (first frame, frame after the last) to the elements that are visible in these frames."""
    began: dict[SvgElement, int] = {}
    spans: dict[tuple[int, int], list[SvgElement]] = {}
    for number, frame in enumerate([*frames, []]):
        here = set(frame)
        for element in [element for element in began if element not in here]:
            spans.setdefault((began.pop(element), number), []).append(element)
        for element in frame:
            began.setdefault(element, number)
    return dict(sorted(spans.items()))


def animate(frames: list[str]) -> str:
    styles: dict[str, str] = {}
    spans = spans_of([elements_of(frame, styles) for frame in frames])
    still, num_frames = STEPS.index(STILL), len(frames)
    seconds = num_frames * STRIDE / STEPS_PER_SECOND / SPEED
    rules = [f".{name} {{ {style} }}" for style, name in styles.items()]
    layers: dict[bool, list[str]] = {False: [], True: []}
    for (first, end), elements in spans.items():
        name = f"f{first}-{end}"
        if (first, end) != (0, num_frames):
            at_rest = "visible" if first <= still < end else "hidden"
            rules.append(f".{name} {{ visibility: {at_rest}; animation-name: {name} }}")
            rules.append(f"@keyframes {name} {{ {_keyframes(first, end, num_frames)} }}")
        for is_text, layer in layers.items():
            if drawn := [element.svg for element in elements if element.is_text == is_text]:
                layer.append(f'<g class="frame {name}">\n' + "\n".join(drawn) + "\n</g>")
    head, window = _surroundings(frames[still])
    return f"""{head}
<style>
text {{ font-family: ui-monospace, monospace; font-size: 20px; white-space: pre }}
.title {{ font: bold 18px arial, sans-serif }}
.frame {{ animation: {seconds:g}s step-end infinite }}
{chr(10).join(rules)}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none !important }} }}
</style>
{window}
<g transform="translate(9, 41)">
<g shape-rendering="crispEdges">
{chr(10).join(layers[False])}
</g>
{chr(10).join(layers[True])}
</g>
</svg>
"""


def _keyframes(first: int, end: int, num_frames: int) -> str:
    """Because of `step-end`, each keyframe holds until the next one."""
    changes = {0: "hidden", first: "visible"} | ({end: "hidden"} if end < num_frames else {})
    return " ".join(
        f"{100 * at / num_frames:.4g}% {{ visibility: {seen} }}" for at, seen in changes.items()
    )


def _surroundings(svg: str) -> tuple[str, str]:
    """The picture's first line, and the frame, title and buttons of the window."""
    head = re.search(r"<svg .*?>", svg)[0].replace(' class="rich-terminal"', "")
    window = re.search(r"</defs>\s*(<rect.*?</g>)", svg, re.DOTALL)[1]
    return head, re.sub(r"terminal-\d+-", "", window)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Draw the animated picture of the home page from a committed recording."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "docs/assets",
        metavar="FOLDER",
        help="(default: docs/assets)",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, theme in PICTURES.items():
        (args.out / name).write_text(animate(asyncio.run(draw_frames(theme))), encoding="utf-8")


if __name__ == "__main__":
    main()
