"""Draws decode steps as a picture: a row for the host's work, above a row for the device's kernels.

The input is the reduced timelines of stage `profile`, all drawn on one time axis.
"""

from html import escape
from typing import Any

WIDTH, LEFT, RIGHT = 860, 76, 14
ROW, GAP, PANEL, TOP, FOOT = 22, 4, 84, 44, 26
KINDS = {"kernel": "kernel", "launch": "launch", "wait": "waiting for the device"}
"""Name of an interval -> label in the legend. All other names are phases of Python."""
STYLE = """
 .card { fill: #ffffff } text { fill: #24292f; font: 12px sans-serif } \
.muted { fill: #57606a } .axis { stroke: #8c959f }
 .kernel { fill: #1f6feb } .launch { fill: #d9730d } \
.wait { fill: #c8ccd1 } .python { fill: #2da44e }
 @media (prefers-color-scheme: dark) {
  .card { fill: #161b22 } text { fill: #e6edf3 } .muted { fill: #9198a1 } .axis { stroke: #6e7681 }
  .kernel { fill: #58a6ff } .launch { fill: #f0883e } \
.wait { fill: #484f58 } .python { fill: #3fb950 }
 }
"""


def draw_steps(panels: list[tuple[str, list[dict[str, Any]]]]) -> str:
    """Return an SVG. panels: pairs of a title and a timeline of `timeline.reduced_timeline`"""
    longest = max(_end(timeline) for _, timeline in panels)
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + PANEL * len(panels) + FOOT
    titles = "; ".join(title for title, _ in panels)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="One decode step, host and device: {escape(titles)}">'
        ),
        f"<style>{STYLE}</style>",
        f'<rect class="card" width="{WIDTH}" height="{height}" rx="6"/>',
        *_legend(),
    ]
    for number, (title, timeline) in enumerate(panels):
        parts += _panel(title, timeline, TOP + PANEL * number, scale)
    parts += _axis(longest, scale, height - FOOT)
    return "\n".join([*parts, "</svg>", ""])


def _end(timeline: list[dict[str, Any]]) -> float:
    return max(interval["start"] + interval["duration"] for interval in timeline)


def _legend() -> list[str]:
    parts, x = [], LEFT
    for kind, words in {**KINDS, "python": "Python"}.items():
        parts.append(f'<rect class="{kind}" x="{x}" y="14" width="12" height="12"/>')
        parts.append(f'<text x="{x + 17}" y="24">{words}</text>')
        x += 17 + 8 * len(words) + 24
    return parts


def _panel(title: str, timeline: list[dict[str, Any]], top: float, scale: float) -> list[str]:
    parts = [f'<text class="muted" x="{LEFT}" y="{top + 10}">{escape(title)}</text>']
    for number, row in enumerate(("host", "device")):
        y = top + 18 + number * (ROW + GAP)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{row}</text>')
        for interval in timeline:
            if interval["on"] == row:
                kind = interval["name"] if interval["name"] in KINDS else "python"
                x, width = LEFT + interval["start"] * scale, max(interval["duration"] * scale, 0.1)
                parts.append(
                    f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}"/>'
                )
    return parts


def _axis(longest: float, scale: float, y: float) -> list[str]:
    tick = next(
        step for step in (100, 200, 500, 1000, 2000, 5000, 10_000, 10**9) if longest / step <= 8
    )
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>']
    for number in range(int(longest // tick) + 1):
        x = LEFT + number * tick * scale
        parts.append(
            f'<text class="muted" x="{x:.1f}" y="{y + 16}"'
            f' text-anchor="middle">{number * tick / 1000:g}</text>'
        )
    return [*parts, f'<text class="muted" x="{LEFT - 8}" y="{y + 16}" text-anchor="end">ms</text>']
