#!/usr/bin/env python3
"""Draws docs/assets/hero.svg and hero-light.svg: the dashboard plays a committed recording.

The animation shows every fifth step of the recording shared-prefix, two steps per second; `make
pictures` draws it again. The SVG has no script: CSS shows each element at the right time. If the
reader prefers reduced motion, or if the viewer cannot animate, the picture shows step STILL.
"""

import asyncio
import inspect
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.portable import standalone
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.state.model import MODELS
from minivllm.tui.time.transport import STEPS_PER_SECOND

ASSETS = Path(__file__).resolve().parents[2] / "docs/assets"
RECORDING = ASSETS / "recordings/shared-prefix.jsonl"
PICTURES = {"hero.svg": DARK.name, "hero-light.svg": LIGHT.name}
STRIDE, STILL = 5, 111
STEPS = range(1, 181, STRIDE)
"""From the first prefill to the stories of those who had to wait for a slot."""
SVG = "{http://www.w3.org/2000/svg}"

Frame = dict[str, None]
"""The rectangles of a frame and its runs of characters, as SVG, in order."""


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
    async with app.run_test(size=(100, 30)) as pilot:
        transport = app.context.transport
        transport.speed = 1.0
        for step in STEPS:
            transport.to_step(step)
            transport.play()
            transport.now = step / STEPS_PER_SECOND
            app.draw()
            await pilot.pause()
            frames.append(standalone(app.export_screenshot(title="minivllm")))
    return frames


def elements_of(svg: str, styles: dict[str, str]) -> Frame:
    """The elements inside a frame's window. Each new style gets a name in `styles`."""
    declared = dict(re.findall(r"\.terminal-\d+-(r\d+) \{ (.*?) \}", svg))
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    elements: Frame = {}
    for node in next(group for group in groups if "clip-path" in group.attrib).iter():
        at = f'x="{node.get("x")}" y="{node.get("y")}"'
        if node.tag == f"{SVG}rect":
            size = f'width="{node.get("width")}" height="{node.get("height")}"'
            elements[f'<rect fill="{node.get("fill")}" {at} {size}/>'] = None
        elif node.tag == f"{SVG}text" and node.text.strip("\n\xa0 "):
            style = declared[node.get("class").rpartition("-")[2]]
            style = styles.setdefault(style, f"s{len(styles)}")
            length = f'textLength="{node.get("textLength")}"'
            elements[f'<text class="{style}" {at} {length}>{escape(node.text)}</text>'] = None
    return elements


def spans_of(frames: list[Frame]) -> dict[tuple[int, int], list[str]]:
    """Map (first frame, frame after the last) to the elements that are visible in these frames."""
    began: dict[str, int] = {}
    spans: dict[tuple[int, int], list[str]] = {}
    for number, frame in enumerate([*frames, {}]):
        for element in [element for element in began if element not in frame]:
            spans.setdefault((began.pop(element), number), []).append(element)
        for element in frame:
            began.setdefault(element, number)
    return dict(sorted(spans.items()))


def animate(frames: list[str]) -> str:
    styles: dict[str, str] = {}
    spans = spans_of([elements_of(frame, styles) for frame in frames])
    still, end_of_all = STEPS.index(STILL), len(frames)
    rules = [f".{name} {{ {style} }}" for style, name in styles.items()]
    layers: dict[str, list[str]] = {"<rect": [], "<text": []}
    for (first, end), elements in spans.items():
        name = f"f{first}-{end}"
        if (first, end) != (0, end_of_all):
            # Because of `step-end`, each keyframe holds until the next one.
            changes = {0: "hidden", first: "visible"}
            changes |= {end: "hidden"} if end < end_of_all else {}
            keys = (
                f"{100 * at / end_of_all:.4g}% {{ visibility: {seen} }}"
                for at, seen in changes.items()
            )
            at_rest = "visible" if first <= still < end else "hidden"
            rules.append(f".{name} {{ visibility: {at_rest}; animation-name: {name} }}")
            rules.append(f"@keyframes {name} {{ {' '.join(keys)} }}")
        for tag, layer in layers.items():
            if drawn := [element for element in elements if element.startswith(tag)]:
                layer.append(f'<g class="frame {name}">\n' + "\n".join(drawn) + "\n</g>")
    head = re.search(r"<svg .*?>", frames[still])[0].replace(' class="rich-terminal"', "")
    window = re.search(r"</defs>\s*(<rect.*?</g>)", frames[still], re.DOTALL)[1]
    return f"""{head}
<style>
text {{ font-family: ui-monospace, monospace; font-size: 20px; white-space: pre }}
.title {{ font: bold 18px arial, sans-serif }}
.frame {{ animation: {end_of_all * STRIDE / STEPS_PER_SECOND:g}s step-end infinite }}
{chr(10).join(rules)}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none !important }} }}
</style>
{re.sub(r"terminal-[0-9]+-", "", window)}
<g transform="translate(9, 41)">
<g shape-rendering="crispEdges">
{chr(10).join(layers["<rect"])}
</g>
{chr(10).join(layers["<text"])}
</g>
</svg>
"""


if __name__ == "__main__":
    for file, theme in PICTURES.items():
        (ASSETS / file).write_text(animate(asyncio.run(draw_frames(theme))), encoding="utf-8")
