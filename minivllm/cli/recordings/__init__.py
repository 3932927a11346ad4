"""Commands for recordings, and engines elsewhere: `attach`, `replay`, `shot`, `once`, `export`."""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {"write_page": "web"})  # `replay` needs it for --web only
