"""Tools that run what the docs show: code blocks, the built site, a browser, the lessons."""
