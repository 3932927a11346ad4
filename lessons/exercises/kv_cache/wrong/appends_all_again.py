"""The whole text is appended in every step."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache as RightCache
from minivllm.lessons.shown.tiny_attention import TinyModel

HINT = "Two tokens are in the cache, and the text has three. How many keys must it have afterwards?"


class TinyKVCache(RightCache):
    def extend(self, model: TinyModel, token_ids: Seq[int]) -> None:
        for position, token_id in enumerate(token_ids):
            key, value = model.key_and_value(token_id, position)
            self.keys.append(key)
            self.values.append(value)
