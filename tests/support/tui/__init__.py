"""The dashboard driven by keys, and readers for the text it has drawn."""
