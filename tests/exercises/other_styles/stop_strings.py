"""Borders by their definition, and recursion over shorter ones."""

from minivllm.engine.stop_strings import StopCheck


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
