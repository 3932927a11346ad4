"""Write the tokenizer of a GGUF file as `tokenizer.json`, with the token ids of llama.cpp.

    tokenizer.ggml.model    `gpt2`: byte-level BPE with merges; `llama`: SentencePiece with scores
    tokenizer.ggml.pre      for `gpt2`: how text is split into words, and whether BOS comes first
    tokenizer.ggml.token_type    which tokens are control tokens, such as <|im_end|>

Source: llama.cpp, src/llama-vocab.cpp. Its `tekken` and `gpt-4o` know no upper case and no
combining marks outside ASCII; there we do what the models' own tokenizers do.
"""

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from minivllm.runtime.checkpoint.checkpoint import write_json
from minivllm.runtime.checkpoint.gguf import GgufHeader, read_array

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2 = rf"{_ENDING}|{_BEFORE}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{_SPACES}"
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_GPT4O = (
    rf"{_BEFORE}{_UPPER}*{_LOWER}+{_ENDING}?|{_BEFORE}{_UPPER}+{_LOWER}*{_ENDING}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{_SPACES}"
)
_TEKKEN = _GPT4O.replace(f"{_ENDING}?", "").replace("{1,3}", "")
_WITH_BOS = ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "midm-2.0", "lfm2", "tekken")
"""Rules with BOS unless the file says otherwise, and with words as tokens even without merges."""
SPLIT_RULES = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mellum"), (_GPT2,)),
    **dict.fromkeys(("smollm", "refact", "starcoder", "command-r"), (_DIGIT, _GPT2)),
    **dict.fromkeys((*_WITH_BOS, "dbrx", "smaug-bpe"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2"), (_QWEN2,)),
    "tekken": (_TEKKEN,),
    "gpt-4o": (_GPT4O,),
}
"""Value of `tokenizer.ggml.pre` -> expressions that cut text into words, one after the other."""
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # of tokenizer.ggml.token_type
_END_TEXTS = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
    "<end_of_turn>", "<｜end▁of▁sentence｜>",
}  # fmt: skip
"""Files often name one end token of several, so llama.cpp knows the others by their text."""
_NAMES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""Hugging Face's names of tokens -> llama.cpp's."""
_SPACE = "\u2581"  # in SentencePiece


def convert_tokenizer(header: GgufHeader, directory: Path) -> list[int]:
    """Write the tokenizer's files; return the ids that end an answer. Raises any error."""
    metadata = header.metadata
    tokens = read_array(header, "tokenizer.ggml.tokens")
    types = read_array(header, "tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    is_bpe = metadata["tokenizer.ggml.model"] == "gpt2"
    defaults = {} if is_bpe else {"bos": 1, "eos": 2, "unknown": 0}
    named = {
        name: tokens[id_]
        for name in ("bos", "eos", "eot", "eom", "unknown", "padding")
        if (id_ := metadata.get(f"tokenizer.ggml.{name}_token_id", defaults.get(name))) is not None
    }
    ends = {named[name] for name in ("eos", "eot", "eom") if name in named}
    ends |= _END_TEXTS.intersection(tokens)
    backend = _byte_level(header, tokens) if is_bpe else _sentencepiece(header, tokens, types)

    # In Phi-3, control tokens swallow the spaces after them. llama.cpp knows it so, too.
    strips = any(name in metadata.get("general.name", "").lower() for name in ("phi-3", "phi3"))
    added = []
    for token, type_ in zip(tokens, types, strict=True):
        if type_ in (_UNKNOWN, _CONTROL, _USER_DEFINED) or token in ends:
            special = type_ != _USER_DEFINED or token in ends
            strip = strips and token not in ("<unk>", "<s>", "<|endoftext|>")
            added.append(AddedToken(token, normalized=False, special=special, rstrip=strip))
    backend.add_tokens(added)
    add_bos = not is_bpe or metadata["tokenizer.ggml.pre"] in _WITH_BOS
    bos = [named["bos"]] if metadata.get("tokenizer.ggml.add_bos_token", add_bos) else []
    eos = [named["eos"]] if metadata.get("tokenizer.ggml.add_eos_token") else []
    backend.post_processor = TemplateProcessing(
        single=[*bos, "$A", *eos],
        special_tokens=[(token, tokens.index(token)) for token in {*bos, *eos}],
    )
    backend.save(str(directory / "tokenizer.json"))
    config = {f"{short}_token": named[name] for short, name in _NAMES.items() if name in named}
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if (template := metadata.get("tokenizer.chat_template")) is not None:
        config["chat_template"] = template
    write_json(directory / "tokenizer_config.json", config)
    return sorted(map(tokens.index, ends))


def _byte_level(header: GgufHeader, tokens: list[str]) -> Tokenizer:
    """A token is written with one printable character for each byte: a space is `Ġ`."""
    rule = header.metadata["tokenizer.ggml.pre"]
    merges = [tuple(merge.split(" ")) for merge in read_array(header, "tokenizer.ggml.merges")]
    vocab = {token: i for i, token in enumerate(tokens)}
    backend = Tokenizer(BPE(vocab, merges, ignore_merges=rule in _WITH_BOS))
    words = [pre_tokenizers.Split(Regex(split), "isolated") for split in SPLIT_RULES[rule]]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*words, byte_level])
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentencepiece(header: GgufHeader, tokens: list[str], types: list[int]) -> Tokenizer:
    """Two neighbours merge if together they are a token; of several, the one of highest score."""
    scores = read_array(header, "tokenizer.ggml.scores")
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [
        (-scores[i], -cut, (tokens[i][:cut], tokens[i][cut:]))
        for i, type_ in enumerate(types)
        if type_ in (_NORMAL, _USER_DEFINED)
        for cut in range(1, min(len(tokens[i]), 256))  # a damaged token can have megabytes
        if tokens[i][:cut] in vocab and tokens[i][cut:] in vocab
    ]
    ordered = [pair for _, _, pair in sorted(merges)]
    unknown = tokens[types.index(_UNKNOWN)] if _UNKNOWN in types else None
    backend = Tokenizer(BPE(vocab, ordered, unk_token=unknown, byte_fallback=True))
    start = int(header.metadata.get("tokenizer.ggml.add_space_prefix", True))
    prefix = [normalizers.Prepend(_SPACE)] * start
    backend.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", _SPACE)])
    spaces, strip = decoders.Replace(_SPACE, " "), decoders.Strip(" ", start, 0)
    order = [spaces, decoders.ByteFallback(), decoders.Fuse(), strip]
    backend.decoder = decoders.Sequence(order)
    return backend
