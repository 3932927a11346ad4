"""Stories: write one from a plot of `plots.toml`, and parse one back into its plot and cast."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from grammar import Cast, draw_cast, fill, match, match_alone, slots_of

PLOTS = tomllib.loads((Path(__file__).parent / "plots.toml").read_text("utf-8"))["plot"]
SLOTS_OF_PLOT: dict[str, list[str]] = {
    plot["name"]: list(
        dict.fromkeys(
            slot for beat in plot["beats"] for pattern in beat for slot in slots_of(pattern)
        )
    )
    for plot in PLOTS
}
"""A plot's name -> the slots that it needs words for."""

ABOUT = (
    "about {a_kind}",
    "about {hero}",
    "about {a_kind} named {hero}",
    "about {a_place}",
    "about {hero} and {a_thing}",
    "about {hero} and {friend}",
    "about {hero} at the {place}",
    "about {a_kind} and {a_thing}",
)
"""What a request for a story may ask for; the words of its slots must be in the story."""
VERBS = ("Tell me a story", "Write a short story", "Write a story", "Please tell me a story")


@dataclass(frozen=True, slots=True)
class Story:
    plot: dict
    cast: Cast
    text: str


def write_story(random: Random, fixed: Cast | None = None, plot: dict | None = None) -> Story:
    fixed = fixed or {}
    able = [plot for plot in PLOTS if all(slot in SLOTS_OF_PLOT[plot["name"]] for slot in fixed)]
    plot = plot or random.choice(able)
    cast = draw_cast(SLOTS_OF_PLOT[plot["name"]], random, fixed)
    while True:
        sentences = [fill(random.choice(beat), cast) for beat in plot["beats"]]
        text = " ".join(sentence for sentence in sentences if sentence)
        if all(word in text for word in fixed.values()):
            return Story(plot, cast, text)


def write_request(random: Random) -> tuple[str, Cast]:
    about = random.choice(ABOUT)
    fixed = draw_cast(slots_of(about), random)
    return f"{random.choice(VERBS)} {fill(about, fixed)}.", fixed


def parse_request(text: str) -> Cast | None:
    """Return the words that a request for a story fixes; None if it is no such request."""
    for verb in VERBS:
        for about in ABOUT:
            pattern = f"{verb} {about}."
            found = match(pattern, text, {})
            if found is not None and found[1] == len(text):
                return found[0]
    return None


def parse_story(text: str, fixed: Cast | None = None) -> Story | None:
    """Find the plot and the cast of a whole story; None if it is not grammatical.

    The same names, things and places must be used from the first sentence to the last.
    """
    for plot in PLOTS:
        for cast, end in _parse_beats(plot["beats"], text, 0, dict(fixed or {})):
            if end == len(text) and all(word in text for word in (fixed or {}).values()):
                return Story(plot, cast, text)
    return None


def is_made_of_sentences(text: str) -> bool:
    """True if each sentence is one of a plot's, with any words in its slots.

    Weaker than `parse_story`: the sentences may come from several plots, and a name may change.
    """
    patterns = [pattern for plot in PLOTS for beat in plot["beats"] for pattern in beat if pattern]
    reached, ends = {0}, [0]
    while ends:
        end = ends.pop()
        if end == len(text) and end:
            return True
        start = end + (end > 0 and text[end : end + 1] == " ")
        for pattern in patterns:
            length = match_alone(pattern, text[start:])
            if length is not None and start + length not in reached:
                reached.add(start + length)
                ends.append(start + length)
    return False


def is_about_a_story(text: str) -> bool:
    """True if the text answers some question about some story."""
    return any(
        match_alone(pattern, text) == len(text)
        for plot in PLOTS
        for pattern in (*(answer for _, answer in plot["ask"]), plot["summary"][0])
    )


def _parse_beats(
    beats: list[list[str]], text: str, position: int, cast: Cast
) -> Iterator[tuple[Cast, int]]:
    """Yield each way to read the beats from `position` on: the cast so far, and the end."""
    if not beats:
        yield cast, position
        return
    for pattern in beats[0]:
        if not pattern:
            yield from _parse_beats(beats[1:], text, position, cast)
            continue
        start = position + (position > 0 and text[position : position + 1] == " ")
        found = match(pattern, text[start:], cast)
        if found is not None:
            yield from _parse_beats(beats[1:], text, start + found[1], found[0])
