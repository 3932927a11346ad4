"""The key is what is read, so it is kept as the value, and the value as the key."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache as RightCache
from minivllm.lessons.shown.tiny_attention import TinyModel

HINT = "The query is compared with keys, and the mean is one of values. Which one comes first?"


class TinyKVCache(RightCache):
    def extend(self, model: TinyModel, token_ids: Seq[int]) -> None:
        for position in range(len(self), len(token_ids)):
            value, key = model.key_and_value(token_ids[position], position)
            self.keys.append(key)
            self.values.append(value)
