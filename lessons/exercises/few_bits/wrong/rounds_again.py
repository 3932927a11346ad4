"""If a larger token comes, all others are rounded again with its scale."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import Int8Cache as RightCache
from minivllm.lessons.shown.quantize import quantize_head

HINT = "Rounding again keeps the meaning, nearly. May the past change when the future is written?"


class Int8Cache(RightCache):
    def write(self, slot: int, heads: Seq[Seq[float]]) -> None:
        for head, numbers in enumerate(heads):
            scale = max(quantize_head(numbers).scale, *(scales[head] for scales in self.scales))
            for other in range(len(self.scales)):
                old = self.scales[other][head]
                steps = [round(step * old / scale) for step in self.numbers[other][head]]
                self.scales[other][head], self.numbers[other][head] = scale, steps
            self.numbers[slot][head] = [round(number / scale) for number in numbers]
