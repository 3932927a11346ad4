"""`Pace`: how long something took, in the unit that the recording's clock can measure.

A virtual clock moves only between steps and by the same amount, so its seconds are no measurement:
a request that is served at once would get its first token after 0 ms. On such a clock all times
are counted in steps. Every panel that shows a time takes it from here.
"""

from typing import NamedTuple

from minivllm.events.ledger import SequenceRecord
from minivllm.events.types import LogHeader
from minivllm.text import plural


class Pace(NamedTuple):
    """Amounts of time are seconds if `is_timed`, and else steps."""

    is_timed: bool
    mono: float
    """What the clock showed at the start of the recording."""

    @classmethod
    def of(cls, header: LogHeader) -> "Pace":
        return cls(header.clock != "virtual", header.mono)

    @property
    def unit(self) -> str:
        return "second" if self.is_timed else "step"

    def since(self, before: tuple[int, float], now: tuple[int, float]) -> float:
        """The amount between two moments (step, time)."""
        return now[1] - before[1] if self.is_timed else float(now[0] - before[0])

    def first_token(self, record: SequenceRecord) -> float | None:
        """The wait for the first token, from the arrival on; None if there is no token yet."""
        if self.is_timed or record.first_token_step is None:
            return record.time_to_first_token
        return float(record.first_token_step - record.arrived_step)

    def later_tokens(self, record: SequenceRecord) -> float | None:
        """The mean between two tokens; None before the second one."""
        if self.is_timed or record.num_tokens < 2:
            return record.time_per_output_token
        return (record.last_token_step - record.first_token_step) / (record.num_tokens - 1)

    def shown(self, amount: float | None) -> str:
        """In at most six characters: `12ms`, or the number of steps alone."""
        if self.is_timed or amount is None:
            return duration(amount)
        return f"{amount:,.0f}" if amount == round(amount) or amount >= 100 else f"{amount:.1f}"

    def words(self, amount: float) -> str:
        """The amount with its unit: `12ms`, or `3 steps`."""
        if self.is_timed:
            return duration(amount)
        return plural(int(amount), "step") if amount == 1 else f"{self.shown(amount)} steps"

    def moment(self, t: float) -> str:
        """A time since the start, such as ` at 2.10 s`; empty on a virtual clock."""
        return f" at {t - self.mono:,.2f} s" if self.is_timed else ""


def rate_words(rate: float) -> str:
    """Tokens per second or step, with a decimal below 10."""
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def duration(seconds: float | None) -> str:
    """A duration in at most six characters."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.00995:  # from 9.95 ms on, this would print 10.0ms
        return f"{seconds * 1000:.1f}ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 1000 else f"{seconds / 60:.0f}min"
