"""The tokenizer: byte-level BPE, trained on the corpus, with each digit a token of its own.

All 256 bytes are in the vocabulary, so any text can be encoded.
"""

import json
from itertools import islice
from pathlib import Path

from corpus import END, START, STOP, documents
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 2048
NUM_DOCUMENTS = 12_000
SPECIAL_TOKENS = [END, START, STOP]
END_ID, START_ID, STOP_ID = range(3)

# A word with the space before it, one digit, signs, or white space. The last space before a word
# belongs to the word.
_PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train_tokenizer(seed: int, num_documents: int = NUM_DOCUMENTS) -> Tokenizer:
    """Merge the most frequent pairs of the corpus's text until the vocabulary is full."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = ("".join(text for text, _ in parts) for parts in islice(documents(seed), num_documents))
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": STOP,
        "pad_token": END,
        "chat_template": _CHAT_TEMPLATE,
    }
    text = json.dumps(config, indent=2) + "\n"
    (directory / "tokenizer_config.json").write_text(text, encoding="utf-8")
