"""Parsers find reasoning, content and tool calls in a model's text, while it is generated."""
