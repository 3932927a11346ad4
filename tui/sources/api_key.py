"""The key for servers that ask for one: `VLLM_API_KEY`, the environment variable that vLLM reads
its own key from.

It is not an option, because everybody who lists the processes sees a command line; and it is not
`OPENAI_API_KEY`, because that key must not be sent to any address that somebody attaches to.
"""

import os

VARIABLE = "VLLM_API_KEY"


def authorization() -> dict[str, str]:
    """The headers that show the key; none without one."""
    key = os.environ.get(VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key and key.isascii() and key.isprintable() else {}
