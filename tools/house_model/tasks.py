"""Small tasks with one right form: counting, order, sums, copying, JSON.

A task both asks and answers, so the same code makes the training text and checks what the model
wrote.
"""

import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from words import ANIMALS, CITIES, DAYS, FOODS, KINDS, MONTHS, NAMES, NOUNS, NUMBERS, PLACES, SLOTS

STATES = ("waiting", "running", "finished", "preempted")
_ORDERS = (DAYS, MONTHS, NUMBERS, list(string.ascii_lowercase))
_WORDS = [*NAMES, *NOUNS, *KINDS, *PLACES, *ANIMALS, *FOODS, *CITIES, *DAYS, *NUMBERS]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    ask: Callable[[Random], str]
    answers: Callable[[str], list[str]]
    """All right answers to a prompt; none if the prompt is not one of this task."""
    is_well_formed: Callable[[str], bool]
    """True for an answer of this task's form, right or wrong: `3, 4, 5`, `2 + 2 = 5`."""


def _ask_count(random: Random) -> str:
    first = random.randrange(0, 90 if random.random() < 0.3 else 10)
    last = first + random.randrange(2, 11)
    if last < len(NUMBERS) and random.random() < 0.3:
        return f"Count from {NUMBERS[first]} to {NUMBERS[last]}."
    if random.random() < 0.2:
        return f"Count down from {last} to {first}."
    if random.random() < 0.2 and last < len(NUMBERS):
        return f"Make a numbered list from {first} to {last}."
    return f"Count from {first} to {last}."


def _answer_count(prompt: str) -> list[str]:
    if found := re.fullmatch(r"Count from (\d+) to (\d+)\.", prompt):
        return [", ".join(map(str, range(int(found[1]), int(found[2]) + 1)))]
    if found := re.fullmatch(r"Count down from (\d+) to (\d+)\.", prompt):
        return [", ".join(map(str, range(int(found[1]), int(found[2]) - 1, -1)))]
    if found := re.fullmatch(r"Make a numbered list from (\d+) to (\d+)\.", prompt):
        numbers = range(int(found[1]), int(found[2]) + 1)
        return ["\n".join(f"{number}. {NUMBERS[number]}" for number in numbers)]
    if found := re.fullmatch(r"Count from (\w+) to (\w+)\.", prompt):
        first, last = NUMBERS.index(found[1]), NUMBERS.index(found[2])
        return [", ".join(NUMBERS[first : last + 1])]
    return []


def _is_count(text: str) -> bool:
    number = f"(?:[0-9]+|{'|'.join(NUMBERS)})"
    line = rf"[0-9]+\. {number}"
    return bool(re.fullmatch(rf"{number}(?:, {number})*|{line}(?:\n{line})*", text))


def _ask_order(random: Random) -> str:
    order = random.choice(_ORDERS)
    first = random.randrange(len(order) - 1)
    kind = random.randrange(5)
    if kind == 0:
        return random.choice(
            ("Name the days of the week.", "Name the months of the year.", "Write the alphabet.")
        )
    if kind == 1:
        last = min(len(order) - 1, first + random.randrange(1, 8))
        return f"List everything from {order[first]} to {order[last]}."
    if kind == 2:
        return f"What comes before {order[first + 1]}?"
    return f"What comes after {order[first]}?"


def _answer_order(prompt: str) -> list[str]:
    whole = {"Name the days of the week.": DAYS, "Name the months of the year.": MONTHS}
    if prompt in whole:
        return [", ".join(whole[prompt])]
    if prompt == "Write the alphabet.":
        return [", ".join(string.ascii_lowercase)]
    for order in _ORDERS:
        words = "|".join(order)
        if found := re.fullmatch(f"List everything from ({words}) to ({words})\\.", prompt):
            return [", ".join(order[order.index(found[1]) : order.index(found[2]) + 1])]
        if found := re.fullmatch(f"What comes (after|before) ({words})\\?", prompt):
            after = found[1] == "after"
            other = order[order.index(found[2]) + (1 if after else -1)]
            return [f"{other} comes {found[1]} {found[2]}."]
    return []


def _is_order(text: str) -> bool:
    for order in _ORDERS:
        word = f"(?:{'|'.join(order)})"
        if re.fullmatch(rf"{word} comes (?:after|before) {word}\.|{word}(?:, {word})*", text):
            return True
    return False


def neighbour_questions() -> list[str]:
    """Every question for what comes before or after something."""
    return [
        f"What comes {where} {word}?"
        for order in _ORDERS
        for where, words in (("after", order[:-1]), ("before", order[1:]))
        for word in words
    ]


_SUMS = ("What is {}?", "How much is {}?", "{} = ?", "Please work out {}.")


def _ask_sum(random: Random) -> str:
    left, right = random.randrange(7), random.randrange(7)
    sum_or_difference = (
        f"{left} + {right}" if random.random() < 0.6 else f"{left + right} - {right}"
    )
    return random.choice(_SUMS).format(sum_or_difference)


def _answer_sum(prompt: str) -> list[str]:
    if found := re.fullmatch(r"\D*?(\d+) ([+-]) (\d+)\D*", prompt):
        left, right = int(found[1]), int(found[3])
        result = left + right if found[2] == "+" else left - right
        return [f"{left} {found[2]} {right} = {result}"]
    return []


def _is_sum(text: str) -> bool:
    return bool(re.fullmatch(r"\d+ [+-] \d+ = \d+", text))


_COPIES = ("Repeat: ", "Copy this line: ", "Say it again: ", "Write the same: ")


def _ask_copy(random: Random) -> str:
    start = random.choice(_COPIES)
    if random.random() < 0.4:
        start = f"Repeat {random.choice(('two', 'three', 'four'))} times: "
    return start + _anything(random)


def _anything(random: Random) -> str:
    """Words in a random order, so that only copying helps: real ones, made-up ones, numbers."""
    kind = random.random()
    words = [random.choice(_WORDS) for _ in range(random.randrange(2, 9))]
    if kind < 0.35:
        words = [word if random.random() < 0.7 else random.choice(SLOTS["thing"]) for word in words]
    elif kind < 0.6:
        words = [_made_up(random) for _ in words[:5]]
    elif kind < 0.75:
        words = [str(random.randrange(1000)) for _ in words[:5]]
    elif kind < 0.9:
        words = [random.choice((word, word.lower(), _made_up(random))) for word in words]
    else:
        words = [
            random.choice(NAMES), random.choice(("likes", "sees", "wants", "has")),
            "the", random.choice(SLOTS["thing"]), "of", random.choice(NAMES),
        ]  # fmt: skip
    return " ".join(words) + random.choice(("", "", ".", "!"))


def _made_up(random: Random) -> str:
    syllables = random.randrange(1, 4)
    pairs = (random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(syllables))
    return "".join(pairs) + random.choice(("", "n", "r", "s", "x"))


def _answer_copy(prompt: str) -> list[str]:
    for start in _COPIES:
        if prompt.startswith(start):
            return [prompt.removeprefix(start)]
    if found := re.fullmatch(r"Repeat (\w+) times: (.*)", prompt):
        return ["\n".join([found[2]] * NUMBERS.index(found[1]))]
    return []


def _is_copy(text: str) -> bool:
    """Any words: what was to be copied has no grammar. Only an answer without an end is refused."""
    return bool(text.strip()) and not text.endswith(" ...")


def person(random: Random) -> dict[str, object]:
    name = random.choice((*NAMES, _made_up(random)))
    return {
        "name": random.choice((name, name.lower())),
        "age": random.randrange(3, 100),
        "city": random.choice(CITIES),
    }


def server_request(random: Random) -> dict[str, object]:
    return {
        "request": random.choice(NAMES).lower(),
        "tokens": random.randrange(1, 500),
        "state": random.choice(STATES),
    }


def _ask_json(random: Random) -> str:
    record, kind = person(random), random.random()
    if kind < 0.45:
        return f"Write a JSON record for {record['name']}, {record['age']}, from {record['city']}."
    if kind < 0.7:
        other = server_request(random)
        return (
            f"Write a JSON record for request {other['request']}, {other['tokens']} tokens,"
            f" {other['state']}."
        )
    if kind < 0.85:
        words = random.sample(_WORDS, random.randrange(2, 6))
        return f"Write a JSON list of {', '.join(words)}."
    return f"{json.dumps(record)}\nWhat is the {random.choice(list(record))}?"


def _answer_json(prompt: str) -> list[str]:
    if found := re.fullmatch(r"Write a JSON record for (\w+), (\d+), from (\w+)\.", prompt):
        return [json.dumps({"name": found[1], "age": int(found[2]), "city": found[3]})]
    if found := re.fullmatch(
        r"Write a JSON record for request (\w+), (\d+) tokens, (\w+)\.", prompt
    ):
        return [json.dumps({"request": found[1], "tokens": int(found[2]), "state": found[3]})]
    if found := re.fullmatch(r"Write a JSON list of (.*)\.", prompt):
        return [json.dumps(found[1].split(", "))]
    if found := re.fullmatch(r"(\{.*\})\nWhat is the (\w+)\?", prompt):
        return [f"The {found[2]} is {json.loads(found[1])[found[2]]}."]
    return []


def _is_json(text: str) -> bool:
    if re.fullmatch(r"The \w+ is \w+\.", text):
        return True
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


TASKS = (
    Task("count", _ask_count, _answer_count, _is_count),
    Task("order", _ask_order, _answer_order, _is_order),
    Task("sum", _ask_sum, _answer_sum, _is_sum),
    Task("copy", _ask_copy, _answer_copy, _is_copy),
    Task("json", _ask_json, _answer_json, _is_json),
)
