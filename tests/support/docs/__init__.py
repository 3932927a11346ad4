"""Running what the docs say: their code blocks, the built site, a browser, the lessons."""
