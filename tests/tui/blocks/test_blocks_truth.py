"""After random runs, the lines of the Blocks screen equal the fold."""

import re
from collections.abc import Callable
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.random_runs import RUNS
from support.tui.drawn_blocks import ids_of

from minivllm.events import types as ev
from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, target_of, text_of
from minivllm.tui.draw.selection import Selection
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cards import BlockCards
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


Texts = dict[str, list[int]]
"""hash -> the tokens of blocks with it, noted when they were registered"""


def note(texts: Texts, model: DashboardModel, event: ev.Event) -> None:
    if isinstance(event, ev.BlockHashed):
        texts[event.hash] = held(model, event.block_id, {})[: model.header.block_size]


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


def check_the_chips(
    model: DashboardModel, panel: Inspector, block_id: int, lines: list[Line], texts: Texts
) -> None:
    fold, size = model.fold, model.header.block_size

    def drawn_as(ids: list[int]) -> list[str]:
        pieces = {} if panel.context.shows_ids else fold.token_pieces
        return [pieces.get(i, str(i)).replace(" ", "·") for i in ids]

    rows = [(text_of(line)[:8].strip(), line) for line in lines]
    spans = [span for label, line in rows if label in KINDS for span in line[1:]]
    own = held(model, block_id, texts)
    assert [text for text, style in spans if "=" in style] == drawn_as(own)
    assert [text for text, _ in spans].count("╴") == (size - len(own)) * bool(own)
    if not own:
        return
    tables = {s: q.block_table for s, q in fold.sequences.items() if block_id in q.block_table}
    new = {
        position
        for item in fold.scheduled
        if item.seq_id in tables
        for position in range(item.num_computed_tokens, item.num_computed_tokens + item.num_tokens)
        if position >= fold.sequences[item.seq_id].num_cached_tokens
        and tables[item.seq_id].index(block_id) == position // size
    }
    assert [at for at, style in enumerate(s for _, s in spans if "=" in s) if "!" in style] == [
        position % size for position in sorted(new)
    ]
    beside = {target_of(style): [] for _, style in spans if "@" in style}
    for text, style in spans:
        if "@" in style:
            beside[target_of(style)].append(text)
    if tables:
        entry = next(iter(tables.values())).index(block_id)
        before = {table[entry - 1] for table in tables.values() if entry}
        after = {table[entry + 1] for table in tables.values() if entry + 1 < len(table)}
    else:
        name, parent = fold.blocks[block_id].hash, fold.blocks[block_id].parent
        before = {at for at, one in enumerate(fold.blocks) if one.hash == parent and parent}
        after = {at for at, one in enumerate(fold.blocks) if one.parent == name}
    for target, words in beside.items():
        at = int(target.key)
        assert at in before | after
        text = drawn_as(held(model, at, texts))
        assert words == (text[-2:] if at in before else text[:2])
    assert bool(before) == any(int(target.key) in before for target in beside)


KINDS = ("prompt", "output", "cached", "", "then")


def check_the_inspector(
    model: DashboardModel, panel: Inspector, block_id: int, texts: Texts
) -> None:
    fold, size = model.fold, model.header.block_size
    shows_ids = block_id % 3 == 0
    panel.context = chosen(block_id, shows_ids)
    facts: dict[str, str] = {}
    lines = panel.lines(model, 250, 60)
    check_the_chips(model, panel, block_id, lines, texts)
    for line in lines:
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


def check_the_words(model: DashboardModel, line: Line, first: int, texts: Texts) -> None:
    """Check that a row has its blocks' words, and where it differs from its siblings."""
    fold = model.fold
    words = [span for span in line if span[1].startswith(("text@block", "muted@block"))]
    for text, style in words:
        ids = texts[fold.blocks[int(target_of(style).key)].hash]
        assert text.strip("…") in "".join(fold.token_pieces[token_id] for token_id in ids)
    own = texts[fold.blocks[first].hash]
    others = {block.hash for block in fold.blocks if block.parent == fold.blocks[first].parent}
    shared = [
        next((n for n, (one, two) in enumerate(zip(own, texts[other], strict=True)) if one != two))
        for other in others - {fold.blocks[first].hash, None}
    ]
    assert any(text == "≠" for text, _ in line) == bool(shared)
    if shared:
        before = "".join(fold.token_pieces[token_id] for token_id in own[: max(shared)])
        after = "".join(fold.token_pieces[token_id] for token_id in own[max(shared) :])
        at = line.index(("≠", "warn*"))
        assert after.startswith(line[at + 1][0].strip("…"))
        drawn = line[at - 1][0] if max(shared) else ""
        assert before.endswith(drawn.strip("…")) and bool(drawn) == bool(before)


def check_the_wrapped_words(model: DashboardModel, lines: list[Line], texts: Texts) -> None:
    """Check that the rows below a piece of a chain have the words of its blocks, in order."""
    blocks, pieces = model.fold.blocks, model.fold.token_pieces
    shown: dict[int, str] = {}
    for text, style in (span for line in lines for span in line):
        if style.startswith("text@block"):
            block_id = int(target_of(style).key)
            shown[block_id] = shown.get(block_id, "") + "".join(text.split())
    assert bool(shown) == any(block.hash in texts for block in blocks)
    for block_id, drawn in shown.items():
        token_ids = texts[blocks[block_id].hash]
        whole = "".join("".join(pieces[token_id] for token_id in token_ids).split())
        assert drawn.removesuffix("…") in whole
        assert any(re.search(rf"\b{block_id}\b", text_of(line)) for line in lines)


def check_the_cards(model: DashboardModel, panel: BlockCards, texts: Texts) -> None:
    """Check that every block with text has one card, with its owners and the text in it."""
    fold, size = model.fold, model.header.block_size
    letters: dict[int, list[str]] = {}
    bodies: dict[int, list[tuple[str, str]]] = {}
    card = None
    for line in panel.lines(model, 130, 200):
        for text, style in line:
            target = target_of(style)
            if target is not None and "=" in style:
                bodies.setdefault(int(target.key), []).append((text, style.partition("@")[0]))
            elif target is not None and target.kind == "block":
                card = int(target.key)
                assert text == f"{card} "
                letters[card] = []
            elif target is not None:
                assert text == model.letter(target.key)
                letters[card].append(target.key)
    shown = {b for q in fold.sequences.values() for b in q.block_table}
    shown |= {b for b in fold.free_queue if fold.blocks[b].hash is not None}
    assert sorted(letters) == sorted(bodies) == sorted(shown)
    for block_id, spans in bodies.items():
        assert letters[block_id] == [
            s for s, q in fold.sequences.items() if block_id in q.block_table
        ]
        ids = held(model, block_id, texts)
        whole = "".join(fold.token_pieces[token_id] for token_id in ids)
        empty = "".join(text for text, _ in spans).count("╴")
        cut = any("…" in text for text, _ in spans)
        assert empty == size - len(ids) or (cut and empty < size - len(ids))
        drawn = "".join("".join(text.split()) for text, _ in spans).rstrip("╴…")
        assert "".join(whole.split()).startswith(drawn) and bool(drawn) == bool(whole)
        assert cut or drawn == "".join(whole.split())


def check_the_tree(model: DashboardModel, panel: PrefixTree, texts: Texts) -> None:
    """Check that every cached block is shown once, under its parent, with its owners and words.

    Blocks without an owner are marked.
    """
    fold = model.fold
    index = PrefixIndex().of(model)
    num_nodes = sum(1 for _ in index.nodes(index.roots))
    check_the_wrapped_words(model, panel.lines(model, 60, 200), texts)
    lines = panel.lines(model, 250, 2 * num_nodes + 1)  # too low for words in rows of their own
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
            if style.startswith(("text@", "muted@")):
                continue
            if target is not None and target.kind == "block":
                copies.append((ids_of(span.removeprefix(CACHED)), [], span.startswith(CACHED)))
            elif target is not None:
                copies[-1][1].append(target.key)
                assert span == model.letter(target.key)
        names = [fold.blocks[block_id].hash for block_id in copies[0][0]]
        check_the_words(model, line, copies[0][0][0], texts)
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
    model, inspector, tree, cards = (
        DashboardModel(run.header),
        Inspector(),
        PrefixTree(),
        BlockCards(),
    )
    here, texts = int(moment * len(run.events)), {}
    for number, event in enumerate(run.events):
        model.apply(event)
        note(texts, model, event)
        # Everything at one moment, and a sample on the way, so that no state of an earlier frame
        # can be wrong.
        if number == here or number % 97 == 0:
            check_the_tree(model, tree, texts)
            check_the_cards(model, cards, texts)
            blocks = range(num_blocks) if number == here else [(pick + number) % num_blocks]
            for block_id in blocks:
                check_the_inspector(model, inspector, block_id, texts)
