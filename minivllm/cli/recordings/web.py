"""`write_page`: one HTML file with a player and the recordings that it plays.

The file asks no other host for anything, so it can be opened from disk, mailed or put in an issue.
The site has the same player.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

from minivllm.cli.recordings.bundle import player_script
from minivllm.errors import EventLogError
from minivllm.events.recording.recording import Recording
from minivllm.events.recording.whole_file import write_whole

MOST_MIB, MOST_BLOCKS = 64, 1 << 16
"""The page's own limits for a recording (`load.js`)."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: a minivllm recording</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0 auto; padding: 12px; max-width: 1400px; font-family: system-ui, sans-serif;
  background: light-dark(#fbfbf8, #0b0e14) }}
</style>
</head>
<body>
<div class="player" data-recording="{names}"{options}>
<noscript>The player of this recording needs JavaScript: switch it on, or play the file with
<code>minivllm replay</code>.</noscript>
</div>
<script>
{recordings}
{player}
</script>
</body>
</html>
"""


def write_page(
    output: str | Path, paths: Sequence[str | Path], step: int | None = None, *, whole: bool = True
) -> int:
    """Write a page that plays one recording, or two side by side. Return its size in bytes.

    step: where to begin; None for the first step
    whole: refuse a recording with an impossible event; otherwise the page plays it up to there

    Raises `EventLogError` if a recording cannot be played, and `OSError` for `output`.
    """
    # The page's list of names uses some characters itself.
    names = [re.sub(r"[^\w.+-]+", "-", Path(path).stem) or "recording" for path in paths]
    if len(set(names)) < len(names):
        names = [f"{name}-{'AB'[at]}" for at, name in enumerate(names)]
    recordings = [_checked(path) if whole else Path(path).read_bytes() for path in paths]
    page = _PAGE.format(
        title=html.escape(" and ".join(names)),
        names=html.escape(",".join(names)),
        options="" if step is None else f' data-step="{step}"',
        recordings="\n".join(map(script_of, names, recordings)),
        player=player_script(),
    )
    write_whole(output, page)
    return len(page.encode())


def script_of(name: str, recording: bytes) -> str:
    """A script that gives the page's player a recording: gzip in base64."""
    packed = base64.b64encode(gzip.compress(recording, mtime=0)).decode()
    return f"(window.minivllmRecordings??={{}})[{json.dumps(name)}]={json.dumps(packed)};"


def _checked(path: str | Path) -> bytes:
    """The bytes of a recording that the page's player can play."""
    recording = Recording(path)
    try:
        size, blocks = recording.indexed_bytes, recording.header.num_blocks
        for found, most, unit in ((size >> 20, MOST_MIB, "MiB"), (blocks, MOST_BLOCKS, "blocks")):
            if found > most:
                much = f"{found:,} {unit}, but a page plays at most {most:,}"
                raise EventLogError(f"{path} has {much}: play it with `minivllm replay {path}`.")
        if not len(recording):
            raise EventLogError(f"{path} has no events: record a run that has a step.")
        return Path(path).read_bytes()[:size]
    finally:
        recording.close()
