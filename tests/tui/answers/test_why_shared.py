"""Why a block is shared: each owner is said to have come by it in the way, and in the step, in which it did."""

import re

import pytest

from minivllm.events import types as ev
from minivllm.tui.answers.why_blocks import why_block
from minivllm.tui.answers.why_sequences import named
from minivllm.tui.state.model import DashboardModel

_STEPS = r"in steps? (\d+)(?: to (\d+))?"
_WAYS = {
    "took": rf"{{}} took it {_STEPS}",
    "found": rf"{{}} found it in the prefix cache {_STEPS}",
    "forked": rf"{{}} (?:was|were) forked {_STEPS}",
}


class Ways:
    """The slow twin: how each sequence came by each block of its table, and when."""

    def __init__(self) -> None:
        self.of: dict[str, dict[int, tuple[str, int]]] = {}

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.BlockAllocated():
                self.of.setdefault(event.seq_id, {})[event.block_id] = ("took", event.step)
            case ev.BlockHit():
                self.of.setdefault(event.seq_id, {})[event.block_id] = ("found", event.step)
            case ev.BlockCopied():
                del self.of[event.seq_id][event.src]
                self.of[event.seq_id][event.dst] = ("took", event.step)
            case ev.RequestForked():
                self.of[event.seq_id] = dict.fromkeys(self.of[event.parent], ("forked", event.step))
            case ev.BlockReleased():
                del self.of[event.seq_id][event.block_id]


def check(run) -> int:
    """Asks about every shared block after every event; the number of sentences that were right."""
    model, ways, checked = DashboardModel(run.header), Ways(), 0
    for event in run.events:
        model.apply(event)
        ways.apply(event)
        if not isinstance(event, ev.BlockCopied | ev.RequestForked | ev.BlockHit | ev.StepEnd):
            continue
        for block_id, state in enumerate(model.fold.blocks):
            if state.ref_cnt < 2:
                continue
            said = why_block(model, block_id).partition("): ")[2]
            for way, words in _WAYS.items():
                # In the order in which the sentence names the owners.
                owners = [seq_id for seq_id, _ in model.owners(block_id)]
                steps = {one: ways.of[one][block_id][1] for one in owners if ways.of[one][block_id][0] == way}
                found = re.search(words.format(f"(?:^|and ){re.escape(named(steps))}"), said)
                assert bool(found) == bool(steps), (event, said, steps)
                if found:
                    assert {int(one) for one in found.groups() if one} == {min(steps.values()), max(steps.values())}
                    checked += 1
    return checked


@pytest.mark.parametrize("scenario", ["shared_prefix", "samples", "beams"])
def test_each_owner_came_by_a_shared_block_as_it_is_said(scenario: str, request: pytest.FixtureRequest) -> None:
    assert check(request.getfixturevalue(scenario).run(40)) > 10
