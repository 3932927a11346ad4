"""The first new token is at position 0."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.tiny_attention import TinyKVCache as RightCache
from minivllm.lessons.shown.tiny_attention import TinyModel

HINT = "The third token of a text is new. Is its position in the text 0 or 2?"


class TinyKVCache(RightCache):
    def extend(self, model: TinyModel, token_ids: Seq[int]) -> None:
        for position, token_id in enumerate(token_ids[len(self) :]):
            key, value = model.key_and_value(token_id, position)
            self.keys.append(key)
            self.values.append(value)
