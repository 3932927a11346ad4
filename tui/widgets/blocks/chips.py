"""The tokens of the selected block as chips, between the last and first words of its neighbours.

prompt  ·of ·your ·own │ You ·are ·a ·careful ·assistant ╴ ╴ ╴ │
                                                 after a  ·Why ·is ·the
"""

from typing import NamedTuple

from minivllm.tui.context import Context
from minivllm.tui.draw.drafts import bracketed, draft_style
from minivllm.tui.draw.selection import Target, block
from minivllm.tui.state.block_words import (
    UNKNOWN_WORDS,
    Contents,
    contents,
    neighbours,
    words,
)
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel


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
