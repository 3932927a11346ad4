"""The API key for servers that require one, from vLLM's environment variable `VLLM_API_KEY`.

It is not a command-line option, because other users of the machine can see command lines. Nor is
`OPENAI_API_KEY` used: OpenAI's key must not be sent to an arbitrary server.
"""

import os

VARIABLE = "VLLM_API_KEY"


def authorization() -> dict[str, str]:
    """The HTTP header with the key; empty without a usable key."""
    key = os.environ.get(VARIABLE, "")
    return {"Authorization": f"Bearer {key}"} if key and key.isascii() and key.isprintable() else {}
