"""The API key for servers that require one, from vLLM's environment variable `VLLM_API_KEY`.

It is not an option: other users of the machine can see command lines. It is not `OPENAI_API_KEY`,
which must not be sent to an arbitrary server.
"""

import os

VARIABLE = "VLLM_API_KEY"


def authorization() -> dict[str, str]:
    """The HTTP headers with the key; empty without one."""
    key = os.environ.get(VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key and key.isascii() and key.isprintable() else {}
