"""Output: right solutions of its exercises in another style; see test_unseen_solutions.py."""

import torch

from minivllm.engine.stop_strings import StopCheck
from minivllm.runtime.sampling.sampler import SamplingError
from minivllm.speculation.verify import Verified, _final


# verify-drafts: slices instead of an iterator, recursion instead of a loop.
def verify(plan, drawn):
    without, verified, begin = [], [], 0
    for item in plan.scheduled:
        middle = begin + len(item.sampling)
        end = middle + len(item.draft_token_ids)
        rows = drawn[begin:end]
        begin = end
        if item.draft_token_ids and not isinstance(rows[0][1], SamplingError):
            verified.append(Verified(item, _final(rows, item.draft_token_ids)))
        else:
            without.extend(rows[: len(item.sampling)])
    return without, verified


def _final_(rows, drafts):
    if not drafts or rows[0][1].token_id != drafts[0] or isinstance(rows[1][1], SamplingError):
        return rows[:1]
    return rows[:1] + _final(rows[1:], drafts[1:])


def roll_back(item, num_accepted, manager):
    num_wrong = len(item.draft_token_ids[num_accepted:])
    end = item.start + item.num_tokens - num_wrong
    item.sequence.num_computed_tokens = end
    manager.shrink(item.sequence, end)
    item.num_accepted = num_accepted


# top-p: row by row, with a stable sort for ties.
def _relative_to_best(logits, params):
    rows = []
    for row, wanted in zip(logits.double(), params, strict=True):
        weights = torch.exp((row - row.max()) / wanted.temperature)
        rows.append(torch.where(weights < wanted.min_p, 0.0, weights))
    return torch.stack(rows)


def _kept(logits, boundary, count):
    best_first = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    ranks = torch.argsort(best_first, dim=-1)
    return ranks < count


def _count_kept(head, total, top_k, top_p):
    counts = []
    for row in range(len(head)):
        weights = head[row].tolist()
        allowed = weights[: int(top_k[row])]
        mass = sum(allowed) if int(top_k[row]) <= len(weights) else float(total[row])
        before, count = 0.0, 0
        for weight in allowed:
            if before >= float(top_p[row]) * mass:
                break
            before, count = before + weight, count + 1
        counts.append([count])
    return torch.tensor(counts, device=head.device)


# stop-strings: borders by their definition, and recursion over shorter ones.
def _borders_of(pattern):
    return [
        max((n for n in range(k) if pattern[:k].endswith(pattern[:n])), default=0)
        for k in range(len(pattern) + 1)
    ]


class _Automaton:
    def step(self, char):
        known = self.pattern[: self.length] + char
        while not (self.pattern.startswith(known) or not known):
            known = known[1:]
        self.length = len(known)
        return known == self.pattern

    def num_undecided(self):
        if self.length < len(self.pattern):
            return self.length
        return self._borders[-1]


class StopStringChecker:
    def feed(self, text, *, may_stop=True):
        before, self._held_back = self._held_back, ""
        whole = before + text
        for index, char in enumerate(text):
            found = None
            for automaton in self._automata:
                if automaton.step(char) and found is None:
                    found = automaton.pattern
            if found is not None and may_stop:
                end = len(before) + index + 1
                return StopCheck(whole[: end if self._include_stop else end - len(found)], found)
        num_held = 0
        for automaton in self._automata:
            num_held = max(num_held, automaton.num_undecided)
        if num_held:
            whole, self._held_back = whole[:-num_held], whole[-num_held:]
        return StopCheck(whole)

    def finish(self, text="", *, may_stop=True):
        check = self.feed(text, may_stop=may_stop)
        if self._held_back:
            check = StopCheck(check.text + self._held_back, check.stop)
        self._held_back = ""
        return check
