"""Block inspector: everything known about the selected block.

A fact is a label with items, which can take several rows. If some items do not fit, their number is
shown. `chips` makes the facts about the block's words.
"""

from itertools import takewhile
from typing import NamedTuple

from minivllm.text import clean, plural, short_name
from minivllm.tui.answers.why import why_host_block
from minivllm.tui.context import Context
from minivllm.tui.draw.drafts import bracketed, draft_style
from minivllm.tui.draw.lines import Line, line, packed, wrap
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.block_words import UNKNOWN_WORDS, Contents, contents, neighbours, words
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel


class Item(NamedTuple):
    text: str
    style: str = "text"
    target: Target | None = None


class Fact(NamedTuple):
    label: str
    items: list[Item]


_NO_WORDS = "This old recording has no words, so tokens are shown as ids."
_EDGE = Item("│", "accent*")
_UNWRITTEN = Item("╴", "faint")
_WORDS_BESIDE = 2
"""Number of words shown of a neighbour."""
_MOST_BRANCHES = 4


def chips(
    model: DashboardModel,
    index: PrefixIndex,
    block_id: int,
    owners: list[tuple[str, int]],
    context: Context,
) -> list[Fact]:
    """The block's tokens with the edges to its neighbours; nothing for a block without tokens."""
    held = contents(model, block_id, owners)
    if not held.token_ids and not held.drafts:
        is_cached = not owners and model.fold.blocks[block_id].hash is not None
        return [_sentence(UNKNOWN_WORDS)] if is_cached else []
    before, after = neighbours(model, index, block_id, owners)
    facts = _own(model, held, bool(owners), context)
    if before is not None:
        beside = _of_neighbour(model, before, context)[-_WORDS_BESIDE:]
        facts[0].items[:0] = [*beside, _EDGE]
    missing = model.header.block_size - len(held.token_ids) - len(held.drafts)
    facts[-1].items.extend([_UNWRITTEN] * missing)
    facts[-1].items.append(_EDGE)
    branches: dict[tuple[str, ...], list[Item]] = {}
    for at in after[:_MOST_BRANCHES]:
        if beside := _of_neighbour(model, at, context)[:_WORDS_BESIDE]:
            branches.setdefault(tuple(item.text for item in beside), beside)
    if len(branches) > 1:  # the texts of several prompts part here
        facts.append(Fact("then", []))
    for number, beside in enumerate(branches.values()):
        facts[-1].items.extend([*[Item("or", "muted")] * (number > 0), *beside])
    if not model.fold.token_pieces:
        facts.insert(0, _sentence(_NO_WORDS))
    return facts


def _sentence(text: str) -> Fact:
    return Fact("words", [Item(word, "muted") for word in text.split()])


def _own(model: DashboardModel, held: Contents, owned: bool, context: Context) -> list[Fact]:
    """The block's own chips; those that the step wrote are in reverse."""
    texts = words(model, held.token_ids, context)
    first = "prompt" if owned else "cached"
    parts = ((first, 0, held.num_prompt, "text"), ("output", held.num_prompt, len(texts), "good"))
    facts = [
        Fact(
            label,
            [Item(texts[at], f"{style}=" + "!" * (at in held.new)) for at in range(start, stop)],
        )
        for label, start, stop, style in parts
        if start < stop
    ]
    if held.drafts:
        drafted = words(model, [token_id for token_id, _ in held.drafts], context)
        items = [
            Item(bracketed(word, is_right), f"{draft_style(is_right)}=")
            for word, (_, is_right) in zip(drafted, held.drafts, strict=True)
        ]
        facts.append(Fact("drafts", items))
    return facts


def _of_neighbour(model: DashboardModel, block_id: int, context: Context) -> list[Item]:
    held = contents(model, block_id, model.owners(block_id))
    return [Item(text, "muted", block(block_id)) for text in words(model, held.token_ids, context)]


_HINT = (
    "No block is selected.\nClick on one, or tab to a panel and use ↑ ↓; g, then b12, goes to"
    " block 12."
)
_HASH_SHOWN = 12
_LABEL_WIDTH = 8
_MOST_RELATIVES = 24


class Inspector(Panel):
    HELP_TITLE = "Block inspector"
    HELP_TEXT = (
        "Everything about the selected block: its owners and its entry in their block"
        " tables, its tokens, and, if it is free, how many allocations it will survive. Tokens"
        " are words, with · for a space and ↵ for a line break. A reversed"
        " word was written by this step, and ╴ is a slot without a token. Beyond the edges │"
        " are words of the blocks before and after: select one to go there. A hash covers a"
        " block's content and all blocks before it, so the panel also lists the block's"
        " parent, the blocks that follow it and the blocks with the same content."
    )

    def __init__(self, index: PrefixIndex | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._index = index or PrefixIndex()

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        block_id, last = self.selection.block_id, self.selection.last
        if last is not None and last.kind == "host":
            said = why_host_block(model, last.key)
            return [line(width, (row, "text")) for row in wrap(said, width)][:height]
        if block_id is None:
            return [line(width, (row, "faint")) for row in wrap(_HINT, width)][:height]
        if block_id >= len(model.fold.blocks):
            return [line(width, (f"There is no block {block_id} in this run.", "warn"))]
        facts = facts_of(model, self._index.of(model), block_id, self.context)
        lines: list[Line] = []
        for number, fact in enumerate(facts):
            # Keep one row for each later fact before this fact gets a second row.
            most = max(height - len(lines) - (len(facts) - number - 1), 1)
            lines += _flow(fact, width, most)
        return lines[:height]


def facts_of(
    model: DashboardModel, index: PrefixIndex, block_id: int, context: Context
) -> list[Fact]:
    state, owners = model.fold.blocks[block_id], model.owners(block_id)
    size, (num_tokens, start) = model.header.block_size, _use(model, index, block_id, owners)
    tokens = Item(f"none of {size}", "muted")
    if num_tokens:
        where = f", positions {start}-{start + num_tokens - 1}" if start is not None else ""
        tokens = Item(f"{num_tokens} of {size}{where}")
    facts = [
        Fact("block", [Item(str(block_id), "text*"), _condition(model, block_id)]),
        _owners(model, block_id, owners),
        Fact("tokens", [tokens]),
        # Early, because the first facts that need several rows get them.
        *chips(model, index, block_id, owners, context),
    ]
    if block_id in model.fold.free_queue:
        facts.append(_end(model, block_id))
    if state.hash is None:
        words = "none: only full blocks have one" if owners else "none"
        facts.append(Fact("hash", [Item(words, "muted")]))
    else:
        facts += _chain(index, block_id, state.hash, state.parent)
        if state.hash in model.ages.host_owners:
            facts.append(Fact("host", [Item("has a copy", "good")]))
    facts.append(_age(model, block_id))
    masses = [
        Item(f"{letter or '?'} {model.mass[seq_id][entry]:.1%}", model.hue(letter))
        for seq_id, entry in owners
        if entry < len(model.mass.get(seq_id, ()))
        for letter in [model.letter(seq_id)]
    ]
    return [*facts, Fact("mass", masses)] if masses else facts


def _condition(model: DashboardModel, block_id: int) -> Item:
    state = model.fold.blocks[block_id]
    if block_id < model.header.reserved_blocks:
        return Item("vLLM's null block, which no sequence gets", "faint")
    if state.ref_cnt > 1:
        return Item(f"in use, shared by {state.ref_cnt}", "shared*")
    if state.ref_cnt == 1:
        return Item("in use, 1 owner", "good")
    is_cached = state.hash is not None
    return Item("free, still cached", "cached") if is_cached else Item("empty", "faint")


def _owners(model: DashboardModel, block_id: int, owners: list[tuple[str, int]]) -> Fact:
    if owners:
        items = [_sequence(model, seq_id, f" entry {entry}") for seq_id, entry in owners]
        return Fact("owners" if len(owners) > 1 else "owner", items)
    last = model.ages.last_owner(block_id)
    before = [] if last is None else [_sequence(model, last, " had it last")]
    return Fact("owner", [Item("none", "muted"), *before])


def _sequence(model: DashboardModel, seq_id: str, words: str) -> Item:
    letter = model.letter(seq_id)
    return Item(f"{letter or '-'} {short_name(seq_id)}{words}", model.hue(letter), sequence(seq_id))


def _use(
    model: DashboardModel, index: PrefixIndex, block_id: int, owners: list[tuple[str, int]]
) -> tuple[int, int | None]:
    """The number of tokens, and the position of the first one in its sequence, if it is known."""
    written = model.num_written(block_id, owners)
    entry = owners[0][1] if owners else index.entry(block_id) if written else None
    return written, None if entry is None else entry * model.header.block_size


def _end(model: DashboardModel, block_id: int) -> Fact:
    """When the block will be allocated again; if it is cached, its content is then evicted."""
    before = sum(1 for _ in takewhile(lambda other: other != block_id, model.fold.free_queue))
    after = f"after {plural(before, 'more allocation')}" if before else "with the next allocation"
    if model.fold.blocks[block_id].hash is None:
        return Fact("taken", [Item(after, "muted")])
    return Fact("dies", [Item(after, "warn")])


def _chain(index: PrefixIndex, block_id: int, name: str, parent: str | None) -> list[Fact]:
    if parent is None:
        before = [Item("begins a prompt", "muted")]
    else:
        before = [Item(f"← {clean(parent)[:_HASH_SHOWN]}", "muted")]
        known = parent in index.carriers
        before += _blocks(index.carriers[parent]) if known else [Item("evicted", "warn")]
    facts = [Fact("hash", [Item(clean(name)[:_HASH_SHOWN], "accent"), *before])]
    names = index.children.get(name, ())
    if children := sorted(at for child in names for at in index.carriers[child]):
        facts.append(Fact("next", _blocks(children)))
    copies = [other for other in index.carriers[name] if other != block_id]
    if copies:
        words = "hold the same" if len(copies) > 1 else "holds the same"
        facts.append(Fact("same", [*_blocks(copies), Item(words, "muted")]))
    return facts


def _blocks(block_ids: list[int]) -> list[Item]:
    items = [Item(f"block {at}", "text", block(at)) for at in block_ids[:_MOST_RELATIVES]]
    more = len(block_ids) - len(items)
    return [*items, Item(f"+ {more:,} more", "muted")] if more else items


def _age(model: DashboardModel, block_id: int) -> Fact:
    age = model.ages.blocks[block_id]
    if age is None:
        return Fact("age", [Item("never used", "muted")])
    # A recording that begins in the middle of a run may lack the event of the allocation.
    taken = "taken before recording" if age.born is None else f"taken in step {age.born:,}"
    return Fact("age", [Item(f"{taken},", "muted"), Item(f"touched in {age.touched:,}", "muted")])


def _flow(fact: Fact, width: int, most: int) -> list[Line]:
    """A fact in at most `most` rows, with the number of items that do not fit."""
    head = ((f"{fact.label:<{_LABEL_WIDTH}}", "muted"),)
    items = (
        # An item that can be selected has more room behind it.
        ((item.text, item.style),) if item.target is None else (item, (" ", "text"))
        for item in fact.items
    )
    return packed(items, width, most, head=head)
