"""Structured output: a grammar says which tokens may come next; the sampler masks the others.

Start reading at `reference.py`, which does it for regular expressions in plain Python. Then
`grammar.py` (the grammar of one request, with the library llguidance) and `manager.py` (compiling).
"""
