"""After random runs, the lines of the Blocks screen equal the fold."""

import re
from collections.abc import Callable
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.random_runs import RUNS
from support.tui.drawn_blocks import ids_of

from minivllm.text import short_name
from minivllm.tui.draw.lines import target_of, text_of
from minivllm.tui.draw.selection import Selection
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cells import CACHED
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree

KIND = "you are a kind and patient librarian who "
BEGINNINGS = ("", KIND * 2, f"{KIND}never sleeps " * 2)
SEARCHES = ({}, {}, {}, {"samples": 2}, {"beams": 2})

asks = st.lists(
    st.tuples(
        st.sampled_from(BEGINNINGS),
        st.integers(1, 14),  # more words
        # its own words or the others': then the same content is computed twice
        st.booleans(),
        st.sampled_from((2, 13, 44)),  # words of the answer
        st.integers(0, 12),  # arrives
        st.sampled_from(SEARCHES),
    ),
    min_size=1,
    max_size=8,
)


def chosen(block_id: int | None, shows_ids: bool) -> SimpleNamespace:
    return SimpleNamespace(selection=Selection(block_id=block_id), ascii=False, shows_ids=shows_ids)


def check_the_inspector(model: DashboardModel, panel: Inspector, block_id: int) -> None:
    fold, size = model.fold, model.header.block_size
    shows_ids = block_id % 3 == 0
    panel.context = chosen(block_id, shows_ids)
    facts: dict[str, str] = {}
    for line in panel.lines(model, 150, 60):
        facts[text_of(line)[:8].strip()] = text_of(line)[8:].strip()
    block = fold.blocks[block_id]
    owners = [
        (s, q.block_table.index(block_id))
        for s, q in fold.sequences.items()
        if block_id in q.block_table
    ]
    assert facts["block"].split()[0] == str(block_id)
    state = facts["block"].partition(" ")[2]
    assert ("in use" in state) == bool(owners)
    assert ("cached" in state) == (not owners and block.hash is not None)
    assert state == "empty" or owners or block.hash is not None
    if len(owners) > 1:
        assert f"shared by {len(owners)}" in state
    named = [f"{model.letter(s)} {short_name(s)} entry {entry}" for s, entry in owners]
    assert re.split(r"\s\s+", facts.get("owners") or facts["owner"]) == named or (
        not owners and "none" in facts["owner"]
    )
    if owners:
        filled = max(
            min(max(fold.sequences[s].num_computed_tokens - entry * size, 0), size)
            for s, entry in owners
        )
        start = owners[0][1] * size
        assert facts["tokens"] == (
            f"{filled} of {size}, positions {start}-{start + filled - 1}"
            if filled
            else f"none of {size}"
        )
        ids = []
        for sequence in (fold.sequences[s] for s, _ in owners):
            prompt = fold.requests[sequence.request_id].prompt_token_ids
            known = [*prompt, *sequence.output_token_ids]
            words = [fold.token_pieces[i].replace(" ", "·") for i in known]
            shown = known if shows_ids else words
            ids.append([str(one) for one in shown[start : start + filled]])
        assert (facts.get("prompt", "") + " " + facts.get("output", "")).split() in ids
    queue = list(fold.free_queue)
    assert ("dies" in facts or "taken" in facts) == (block_id in queue)
    if block_id in queue:
        place = queue.index(block_id)
        after = f"after {place} more allocation{'s' * (place > 1)}"
        said = facts["dies" if block.hash is not None else "taken"]
        assert said == (after if place else "with the next allocation")
    hashed = {i: one for i, one in enumerate(fold.blocks) if one.hash and block.hash}
    assert facts.get("hash", "").startswith((block.hash or "")[:12])
    for label, ids in (
        ("hash", [i for i, one in hashed.items() if one.hash == block.parent]),
        ("next", [i for i, one in hashed.items() if one.parent == block.hash]),
        ("same", [i for i, one in hashed.items() if one.hash == block.hash and i != block_id]),
    ):
        assert [int(i) for i in re.findall(r"block (\d+)", facts.get(label, ""))] == ids


def check_the_tree(model: DashboardModel, panel: PrefixTree) -> None:
    """Check that every cached block is shown once, under its parent, with its owners.

    Blocks without an owner are marked.
    """
    fold = model.fold
    lines = panel.lines(model, 250, 200)
    seen: list[int] = []
    above: list[str] = []  # the last hash of each level
    for line in lines[1:]:
        text = text_of(line)
        guide = re.match(r"[│├└─ ]*", text).group()
        if text[len(guide)] == "×" or text.startswith("nothing"):
            continue
        level = len(guide) // 2
        copies: list[tuple[list[int], list[str], bool]] = []
        for span, style in line:
            target = target_of(style)
            if target is not None and target.kind == "block":
                copies.append((ids_of(span.removeprefix(CACHED)), [], span.startswith(CACHED)))
            elif target is not None:
                copies[-1][1].append(target.key)
                assert span == model.letter(target.key)
        names = [fold.blocks[block_id].hash for block_id in copies[0][0]]
        for ids, holders, is_free in copies:
            assert [fold.blocks[block_id].hash for block_id in ids] == names
            assert all(
                holders == [s for s, q in fold.sequences.items() if b in q.block_table] for b in ids
            )
            assert is_free == (not holders) and all(
                fold.blocks[block_id].ref_cnt == len(holders) for block_id in ids
            )
            seen += ids
        parents = [fold.blocks[block_id].parent for block_id in copies[0][0]]
        assert parents[1:] == names[:-1]
        if level:
            assert parents[0] == above[level - 1]
        elif parents[0] is not None:
            assert "unreachable" in text and parents[0] not in {b.hash for b in fold.blocks}
        above[level:] = [names[-1]]
    assert sorted(seen) == [
        block_id for block_id, block in enumerate(fold.blocks) if block.hash is not None
    ]


@settings(RUNS, max_examples=15)
@given(asks, st.integers(22, 28), st.floats(0, 1), st.integers(0, 10_000))
def test_what_is_drawn_is_what_the_fold_holds_at_any_moment(
    stage: Callable, ask: Callable, requests: list, num_blocks: int, moment: float, pick: int
) -> None:
    wanted = [
        ask(
            f"r{number}",
            beginning + " ".join(f"w{number * own}-{word}" for word in range(more)),
            " ".join(f"a{word % 9}" for word in range(said)),
            arrives,
            max_tokens=44,
            **search,
        )
        for number, (beginning, more, own, said, arrives, search) in enumerate(requests)
    ]
    run = stage(wanted, num_blocks=num_blocks).run()
    model, inspector, tree = DashboardModel(run.header), Inspector(), PrefixTree()
    here = int(moment * len(run.events))
    for number, event in enumerate(run.events):
        model.apply(event)
        # Everything at one moment, and a sample on the way, so that no state of an earlier frame
        # can be wrong.
        if number == here or number % 97 == 0:
            check_the_tree(model, tree)
            blocks = range(num_blocks) if number == here else [(pick + number) % num_blocks]
            for block_id in blocks:
                check_the_inspector(model, inspector, block_id)
