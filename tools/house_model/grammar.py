"""Sentences with slots: fill them from a cast, and find the cast from a sentence.

    cast = {"hero": "Ada", "thing": "red kite"}
    fill("{hero} lost {his} {thing}.", cast)                      "Ada lost her red kite."
    match("{hero} lost {his} {thing}.", "Ben lost his old ...")   None: not in the word lists

Both directions use the same word lists, so the generator and the checker cannot disagree.
"""

import re
from functools import lru_cache
from itertools import product
from random import Random

from words import HE, NAMES, PRONOUNS, SLOTS

Cast = dict[str, str]
"""Slot -> word. A slot keeps its word for a whole story."""

_SLOT = re.compile(r"\{(\w+)\}")


def slots_of(pattern: str) -> list[str]:
    """The slots that a pattern needs a word for: `{a_kind}` needs `kind`, `{he}` needs `hero`."""
    return [_base(slot) for slot in _SLOT.findall(pattern)]


def fill(pattern: str, cast: Cast) -> str:
    """Write a pattern with the words of the cast. Raises KeyError for a slot without a word."""
    return _SLOT.sub(lambda found: _word(found[1], cast), pattern)


def draw_cast(slots: list[str], random: Random, fixed: Cast | None = None) -> Cast:
    """Draw a word for each slot. Slots of one list, like `kind` and `kind2`, get different words.

    A friend is never the hero.
    """
    cast = dict(fixed or {})
    for slot in slots:
        if slot not in cast:
            words = SLOTS[slot.rstrip("2")]
            taken = {word for word in cast.values() if word in words}
            cast[slot] = random.choice([word for word in words if word not in taken])
    return cast


def match(pattern: str, text: str, cast: Cast, *, doubles: bool = False) -> tuple[Cast, int] | None:
    """Match a pattern at the start of a text: the cast with the new words, and the length.

    Words that the cast has already must be repeated exactly. None if the text does not match.
    With `doubles`, one word may fill two slots: Ada may meet Ada.
    """
    found = _regex(pattern, tuple(sorted(cast.items()))).match(text)
    if found is None:
        return None
    cast = cast | found.groupdict()
    # The regex accepts `a` and `an`, `he` and `she`. Writing the sentence again decides.
    if fill(pattern, cast) != found[0] or (_has_doubles(cast) and not doubles):
        return None
    return cast, found.end()


def match_alone(pattern: str, text: str) -> int | None:
    """Match a sentence out of its story: any words, `he` or `she`, the same word twice.

    Returns the length of the match; None if the text does not match.
    """
    named = {slot for slot in _SLOT.findall(pattern) if slot.rstrip("2") not in PRONOUNS}
    unnamed = sorted({_base(slot) for slot in _SLOT.findall(pattern)} - set(map(_base, named)))
    for people in product(
        (min(HE), next(name for name in NAMES if name not in HE)), repeat=len(unnamed)
    ):
        found = match(pattern, text, dict(zip(unnamed, people, strict=True)), doubles=True)
        if found is not None:
            return found[1]
    return None


def _base(slot: str) -> str:
    if slot.rstrip("2") in PRONOUNS:
        return "friend" if slot.endswith("2") else "hero"
    return slot.removeprefix("a_")


def _word(slot: str, cast: Cast) -> str:
    word = cast[_base(slot)]
    if slot.rstrip("2") in PRONOUNS:
        return PRONOUNS[slot.rstrip("2")][word not in HE]
    if slot == "a_food":
        return f"some {word}"
    if slot.startswith("a_"):
        return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
    return word


@lru_cache(maxsize=4096)
def _regex(pattern: str, cast: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    known = dict(cast)
    parts, end, groups = [], 0, set()
    for found in _SLOT.finditer(pattern):
        parts.append(re.escape(pattern[end : found.start()]))
        end = found.end()
        slot, base = found[1], _base(found[1])
        if base in known:
            parts.append(re.escape(_word(slot, known)))
        elif slot.rstrip("2") in PRONOUNS:
            parts.append(f"(?:{'|'.join(PRONOUNS[slot.rstrip('2')])})")
        else:
            parts.append("(?:an?|some) " if slot.startswith("a_") else "")
            parts.append(f"(?P={base})" if base in groups else _any_word_of(base))
            groups.add(base)
    parts.append(re.escape(pattern[end:]))
    return re.compile("".join(parts))


def _any_word_of(base: str) -> str:
    words = sorted(SLOTS[base.rstrip("2")], key=len, reverse=True)
    return f"(?P<{base}>{'|'.join(words)})"


def _has_doubles(cast: Cast) -> bool:
    return len(set(cast.values())) < len(cast)
