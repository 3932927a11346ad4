"""The version of minivllm: `minivllm --version`, recordings and reports have it."""

__version__ = "0.1.0"
