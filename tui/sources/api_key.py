"""The key for servers that ask for one: `VLLM_API_KEY`, the environment variable that vLLM's own key comes from.

Not an option, because whoever lists the processes reads a command line; and not `OPENAI_API_KEY`, because that one
must not be sent to whatever address somebody attaches to.
"""

import os

VARIABLE = "VLLM_API_KEY"


def authorization() -> dict[str, str]:
    """The headers that show the key; none without one."""
    key = os.environ.get(VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key and key.isascii() and key.isprintable() else {}
