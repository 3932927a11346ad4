"""Delays by a table of priorities; the victim is found by sorting."""

from minivllm.core.request import Sequence


class OwnPolicy:
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, int, int]:
        arrival = sequence.request.arrival_number
        delay = {0: 0, 1: 25}.get(sequence.request.priority, 50)
        for _ in range(0, sequence.num_prompt_tokens, 20):
            delay += 2
        return float(arrival + delay), arrival, sequence.index

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        by_merit = sorted(running, key=self.key)
        by_merit.sort(key=lambda one: one.num_preemptions, reverse=True)
        by_merit.sort(key=lambda one: one.request.priority)
        return by_merit[-1]
