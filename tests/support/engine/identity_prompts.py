"""Varied prompts for the token-identity tests."""

from minivllm.runtime.text.tokenizer import Tokenizer

CHAT = [
    "What is the capital of France?", "Explain gravity to a five-year-old.",
    "Write a haiku about autumn rain.",
    "I have 3 apples and eat one. How many are left? Think step by step.",
]  # fmt: skip
TEXT = [
    "The capital of France is", "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ", "import numpy as np\n\nx = np.arange(10)\nprint(",
    "SELECT name, COUNT(*) FROM users\nWHERE ", '{"name": "Ada", "born": 1815, "known_for": [',
    "Die Hauptstadt von Deutschland ist", "日本の首都は", "Привет, как",
    "naïve café — “quotes” … ½ €", "🙂🙃🚀 emoji are", "1, 1, 2, 3, 5, 8, 13,", "a", "\n\n\n",
    "word " * 40, "    indented\n\ttabbed\r\nwindows",
]  # fmt: skip
LONG = (
    "The history of computing is long. First came the abacus, then Pascal's calculator, then"
    " Babbage's engines. In the twentieth century relays gave way to tubes, tubes to transistors,"
    " and transistors to chips. "
)
LONGEST = 1000  # Tokens of the longest prompt.


def prompts_for(tokenizer: Tokenizer) -> list[list[int]]:
    """23 prompts of 1 to 1,000 tokens. The last two share a long prefix; two others are equal."""
    ids = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in CHAT]
    ids += [tokenizer.encode(text) for text in TEXT]
    long = tokenizer.encode(LONG * 30)[:LONGEST]
    assert len(long) == LONGEST and len(ids[16]) == 1
    return [*ids, ids[0], long, [*long[:640], *tokenizer.encode(" And then")]]
