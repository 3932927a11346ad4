"""Structured output: a grammar says which tokens may come next; the sampler masks the others.

Start reading at `reference.py`, which does it for regular expressions in plain Python. Then
`grammar.py` (the grammar of one request, with the library llguidance) and `manager.py` (compiling).
An engine imports both with its first grammar.
"""

from minivllm import lazy_names

_HOMES = {"StructuredOutputGrammar": "grammar", "StructuredOutputManager": "manager"}
__getattr__ = lazy_names(__name__, _HOMES)

MAX_LENGTH = {
    "json": 100_000, "json_object": 100_000, "choice": 100_000, "regex": 10_000, "grammar": 10_000,
}  # fmt: skip
"""Most characters: checking them takes about half a second."""
