"""The HTTP server, a layer above the engine: OpenAI's API, metrics and feeds of events.

The names below need the packages of `minivllm[serve]`, and are imported on first use.
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "assemble": "app", "bind": "run", "run_server": "run", "serve_file": "feeds.file_feed",
})  # fmt: skip
