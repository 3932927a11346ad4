"""A call adds one token, the newest."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache as RightCache
from minivllm.lessons.shown.tiny_attention import TinyModel

HINT = "A prompt has many tokens, and the cache is empty. How many must one call add?"


class TinyKVCache(RightCache):
    def extend(self, model: TinyModel, token_ids: Seq[int]) -> None:
        if len(self) < len(token_ids):
            key, value = model.key_and_value(token_ids[-1], len(token_ids) - 1)
            self.keys.append(key)
            self.values.append(value)
