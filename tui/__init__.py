"""The dashboard: a terminal view of one engine, imported as `minivllm.tui`.

The program is `app.DashboardApp`. It rebuilds the engine's state from the event stream (a fold).
No module here imports torch or reads the engine itself.

    sources/   where events come from: this process, a server, a file
    state/     the state that panels draw, folded from events
    time/      the position in a recording
    answers/   sentences: why, and the source of a decision
    draw/      from styled text to terminal cells
    widgets/   the panels, by subject; screens/ arranges them
    keys/      the table of commands, and the function of each key

The names below are imported on first use, so that a command's `--help` does not wait for Textual.
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "COLOURS": "draw.theme", "DashboardApp": "app", "HttpSource": "sources.http_source",
    "load_keymap": "keys.keymap", "picture": "panels",
})  # fmt: skip
