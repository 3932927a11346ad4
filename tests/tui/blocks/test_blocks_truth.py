"""After random runs, the inspector and the prefix tree equal the fold, for every block."""

import re
from types import SimpleNamespace

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.engine.random_runs import RUNS
from support.tui.drawn_blocks import ids_of
from support.tui.shown import moments
from support.tui.stages import Ask, Stage

from minivllm.events import types as ev
from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, text_of
from minivllm.tui.draw.selection import Selection
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cells import CACHED
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree

KIND = "you are a kind and patient librarian who "

asks = st.lists(
    st.tuples(
        st.sampled_from(("", KIND * 2, f"{KIND}never sleeps " * 2)),  # how the prompt begins
        st.integers(1, 14),  # more words
        # its own words or the others': then the same content is computed twice
        st.booleans(),
        st.sampled_from((2, 13, 44)),  # words of the answer
        st.integers(0, 12),  # arrives
        st.sampled_from(({}, {}, {}, {"samples": 2}, {"beams": 2})),
    ),
    min_size=1,
    max_size=8,
)

Texts = dict[str, list[int]]
"""hash -> the tokens of blocks with it, noted when they were registered"""


def held(model: DashboardModel, block_id: int, texts: Texts) -> list[int]:
    """The tokens in a block, without the dashboard's code."""
    fold, size, found = model.fold, model.header.block_size, []
    for sequence in fold.sequences.values():
        if block_id in sequence.block_table:
            prompt = fold.requests[sequence.request_id].prompt_token_ids
            known = [*prompt, *sequence.output_token_ids][: sequence.num_computed_tokens]
            start = sequence.block_table.index(block_id) * size
            found.append(known[start : start + size])
    return max(found, key=len) if found else texts.get(fold.blocks[block_id].hash, [])


def tables_with(model: DashboardModel, block_id: int) -> dict[str, list[int]]:
    sequences = model.fold.sequences.items()
    return {seq_id: q.block_table for seq_id, q in sequences if block_id in q.block_table}


# ---- the inspector ----


def check_the_inspector(model: DashboardModel, panel: Inspector, block_id: int, texts: Texts):
    fold, size, block = model.fold, model.header.block_size, model.fold.blocks[block_id]
    panel.context = SimpleNamespace(selection=Selection(block_id=block_id), ascii=False)
    lines = panel.lines(model, 250, 60)
    facts = {text_of(line)[:8].strip(): text_of(line)[8:].strip() for line in lines}
    owners = {s: t.index(block_id) for s, t in tables_with(model, block_id).items()}
    number, _, state = facts["block"].partition(" ")
    assert number == str(block_id)
    free = "free, still cached" if block.hash is not None else "empty"
    used = "in use, 1 owner" if len(owners) == 1 else f"in use, shared by {len(owners)}"
    assert state == (used if owners else free)
    named = [f"{model.letter(s)} {short_name(s)} entry {entry}" for s, entry in owners.items()]
    if owners:
        assert re.split(r"\s\s+", facts.get("owners") or facts["owner"]) == named
        first = next(iter(owners.values())) * size
        filled = len(held(model, block_id, texts))
        where = f"{filled} of {size}, positions {first}-{first + filled - 1}"
        assert facts["tokens"] == (where if filled else f"none of {size}")
    else:
        assert "none" in facts["owner"]
    queue = list(fold.free_queue)
    assert ("dies" in facts or "taken" in facts) == (block_id in queue)
    if block_id in queue:
        place = queue.index(block_id)
        after = f"after {place} more allocation{'s' * (place > 1)}"
        said = facts["dies" if block.hash is not None else "taken"]
        assert said == (after if place else "with the next allocation")
    hashed = {at: other for at, other in enumerate(fold.blocks) if other.hash and block.hash}
    assert facts.get("hash", "").startswith((block.hash or "")[:12])
    for label, ids in (
        ("hash", [at for at, other in hashed.items() if other.hash == block.parent]),
        ("next", [at for at, other in hashed.items() if other.parent == block.hash]),
        ("same", [at for at, o in hashed.items() if o.hash == block.hash and at != block_id]),
    ):
        assert [int(at) for at in re.findall(r"block (\d+)", facts.get(label, ""))] == ids
    check_the_words_of_the_inspector(model, panel, block_id, lines, texts)


def check_the_words_of_the_inspector(
    model: DashboardModel, panel: Inspector, block_id: int, lines: list[Line], texts: Texts
) -> None:
    """The block's tokens and empty slots, between two words of the blocks before and after it."""
    own, tables = held(model, block_id, texts), tables_with(model, block_id).values()
    pieces = model.fold.token_pieces

    def drawn_as(ids: list[int]) -> list[str]:
        return [pieces.get(token_id, str(token_id)).replace(" ", "·") for token_id in ids]

    labels = ("prompt", "output", "cached", "", "then")
    rows = [line[1:] for line in lines if text_of(line)[:8].strip() in labels]
    spans = [span for row in rows for span in row]
    assert [span[0] for span in spans if "=" in span[1]] == drawn_as(own)
    num_empty = model.header.block_size - len(own) if own else 0
    assert [span[0] for span in spans].count("╴") == num_empty
    beside: dict[int, list[str]] = {}
    for text, _, target in (span for span in spans if len(span) == 3):
        beside.setdefault(target.key, []).append(text)
    if tables:
        places = [(table, table.index(block_id)) for table in tables]
        before = {table[at - 1] for table, at in places if at}
        after = {table[at + 1] for table, at in places if table[at + 1 :]}
    else:
        state, blocks = model.fold.blocks[block_id], list(enumerate(model.fold.blocks))
        before = {at for at, other in blocks if other.hash == state.parent is not None}
        after = {at for at, other in blocks if other.parent == state.hash is not None}
    assert beside.keys() <= before | after
    for at, words in beside.items():
        text = drawn_as(held(model, at, texts))
        assert words == (text[-2:] if at in before else text[:2])
    known = any(held(model, at, texts) for at in before)  # a block can be cached without its words
    assert not own or known == any(at in before for at in beside)


# ---- the prefix tree ----


def check_the_tree(model: DashboardModel, panel: PrefixTree) -> None:
    """Every cached block is drawn once, under its parent, with its owners or a mark."""
    blocks = model.fold.blocks
    lines = panel.lines(model, 250, 2 * len(blocks) + 1)
    seen: list[int] = []
    above: list[str] = []  # the last hash of each level
    for line in lines[1:]:
        text = text_of(line)
        guide = re.match(r"[│├└─ ]*", text).group()
        copies: list[tuple[list[int], list[str], bool]] = []
        for span, style, target in (span for span in line if len(span) == 3):
            if style in ("text", "muted"):
                continue
            if target.kind == "block":
                copies.append((ids_of(span.removeprefix(CACHED)), [], span.startswith(CACHED)))
            elif style.endswith("*"):
                copies[-1][1].append(target.key)
                assert span == model.letter(target.key)
        if not copies:  # words, or the entry that a lookup missed
            continue
        level, names = len(guide) // 2, [blocks[block_id].hash for block_id in copies[0][0]]
        for ids, holders, is_free in copies:
            assert [blocks[block_id].hash for block_id in ids] == names
            assert all(holders == list(tables_with(model, block_id)) for block_id in ids)
            assert is_free == (not holders)
            seen += ids
        parents = [blocks[block_id].parent for block_id in copies[0][0]]
        assert parents[1:] == names[:-1]
        if level:
            assert parents[0] == above[level - 1]
        elif parents[0] is not None:
            assert "unreachable" in text and parents[0] not in {block.hash for block in blocks}
        above[level:] = [names[-1]]
    assert sorted(seen) == [at for at, block in enumerate(blocks) if block.hash is not None]


@settings(RUNS, max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(asks, st.integers(22, 28), st.floats(0, 1), st.integers(0, 10_000))
def test_what_is_drawn_is_the_fold_at_any_moment(requests, num_blocks, moment, pick) -> None:
    wanted = [
        Ask(
            f"r{number}",
            beginning + " ".join(f"w{number * own}-{word}" for word in range(more)),
            " ".join(f"a{word % 9}" for word in range(said)),
            arrives,
            max_tokens=44,
            **search,
        )
        for number, (beginning, more, own, said, arrives, search) in enumerate(requests)
    ]
    run = Stage(wanted, num_blocks=num_blocks).run()
    inspector, tree = Inspector(), PrefixTree()
    here, texts = int(moment * len(run.events)), {}
    for number, (model, event) in enumerate(moments(run)):
        if isinstance(event, ev.BlockHashed):
            texts[event.hash] = held(model, event.block_id, {})[: model.header.block_size]
        # Everything at one moment, and a sample on the way, so that no state of an earlier frame
        # can be wrong.
        if number == here or number % 97 == 0:
            check_the_tree(model, tree)
            blocks = range(num_blocks) if number == here else [(pick + number) % num_blocks]
            for block_id in blocks:
                check_the_inspector(model, inspector, block_id, texts)
