"""A hook of mkdocs: the player's script, and each recording as a script that a page can load.

A page with players says in one sentence what a reader without JavaScript has instead.

A page opened from disk may load scripts, but may not read other files. So the site has each of
docs/assets/recordings/NAME.jsonl as assets/player/recordings/NAME.js.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from minivllm.cli.recordings.bundle import player_script
from minivllm.cli.recordings.web import script_of

RECORDINGS = Path(__file__).resolve().parents[2] / "docs/assets/recordings"
PLAYER = "assets/player"
WITHOUT = (
    "<noscript><p>Each picture of a run on this page becomes a player if JavaScript is on.</p>"
    "</noscript>"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, f"{PLAYER}/player.js", content=player_script()))
    for path in sorted(RECORDINGS.rglob("*.jsonl")):
        name = path.relative_to(RECORDINGS).with_suffix("").as_posix()
        script = script_of(name, path.read_bytes())
        files.append(File.generated(config, f"{PLAYER}/recordings/{name}.js", content=script))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if 'class="player"' not in html or "needs JavaScript" in html:
        return html
    return html.replace("</h1>", f"</h1>\n{WITHOUT}", 1)
