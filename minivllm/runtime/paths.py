"""The cache directory, for converted models and built kernels."""

import os
from pathlib import Path


def default_cache_root() -> Path:
    """`$MINIVLLM_CACHE`, else `$XDG_CACHE_HOME/minivllm`, else `~/.cache/minivllm`."""
    if chosen := os.environ.get("MINIVLLM_CACHE"):
        return Path(chosen).expanduser()
    # According to the XDG standard, a relative path must be ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "minivllm"
