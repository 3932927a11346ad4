"""Parsers split a model's text into reasoning, content and tool calls, while it is generated.

Read `base.py` first; `choose.py` selects the parser of a request.
"""
