"""Checks for token-mask: small patterns over a few letters, texts, vocabularies and masks."""

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.structured_output import reference

PARTS = ("a", "b", "ab", "a?", "b*", "(a|b)", "(ab)*", "b+", "(a|bb)+", "[ab]{2}", "(a*b)?", "é")
AROUND = ("{}", "({})*", "({})?", "({})|b", "a({})")
LETTERS = "abé"
TOKENS = ("a", "b", "ab", "ba", "aa", "bab", "é", "x", "bx", "", None)
VOCABULARY = 12


def _pattern(draw: Draw) -> str:
    parts = draw.list_of(lambda d: d.choice(PARTS), 1, 3)
    return draw.choice(AROUND).format("".join(parts))


def _tokens(draw: Draw) -> list[str | None]:
    return draw.list_of(lambda d: d.choice(TOKENS), 1, 6)


def _bytes(tokens: list[str | None]) -> list[bytes | None]:
    return [None if token is None else token.encode() for token in tokens]


@behaviour(task=4, cases=lambda draw: {"pattern": _pattern(draw)}, examples=80)
def ends(case: Case) -> Lines:
    """a text may end where nothing more is needed

    Does the empty text fit the pattern? Go through its parts: which of them can be empty?
    """
    automaton = reference.RegexAutomaton(case["pattern"])
    yield f"{case['pattern']}: the empty text fits {bool(automaton.may_end(automaton.start))}"


@behaviour(
    task=3,
    cases=lambda draw: {"pattern": _pattern(draw), "text": draw.text(LETTERS, 1, 5)},
    examples=120,
)
def reads(case: Case) -> Lines:
    """reading a byte leaves what must follow it

    Write down what is left after each byte of the text. Where is the first difference?
    """
    automaton, text = reference.RegexAutomaton(case["pattern"]), case["text"]
    state = automaton.start
    for count, letter in enumerate(text, start=1):
        state = automaton.advance(state, letter.encode())
        read = f"{case['pattern']} after {text[:count]!r}"
        follow = [
            char for char in LETTERS if automaton.advance(state, char.encode()) != reference.NOTHING
        ]
        yield f"{read}: {'refused' if state == reference.NOTHING else 'fits so far'}"
        yield f"{read}: may end {bool(automaton.may_end(state))}, next one of {follow}"


def _vocabulary_case(draw: Draw) -> Case:
    return {
        "pattern": _pattern(draw),
        "text": draw.text("ab", 0, 3),
        "tokens": _tokens(draw),
        "ends": draw.list_of(lambda d: d.integer(6, 9), 0, 2),
    }


@behaviour(task=1, cases=_vocabulary_case, examples=120)
def allows(case: Case) -> Lines:
    """a token is allowed if all its bytes can be read

    Take the first token that differs, and read its bytes one after the other.
    """
    # Without end tokens.
    automaton, tokens = reference.RegexAutomaton(case["pattern"]), case["tokens"]
    state = automaton.advance(automaton.start, case["text"].encode())
    allowed = list(automaton.allowed_tokens(state, _bytes(tokens)))
    yield f"{case['pattern']} after {case['text']!r}, tokens {tokens}: {allowed}"


@behaviour(task=1, cases=_vocabulary_case, examples=100)
def allows_ends(case: Case) -> Lines:
    """end tokens are allowed exactly where the text may end

    May this text end? Then each end token is in the list, in the order of the ids.
    """
    # The end tokens are among the tokens: other tokens have smaller and larger ids.
    automaton, ends = reference.RegexAutomaton(case["pattern"]), {end - 6 for end in case["ends"]}
    tokens = [None if at in ends else token for at, token in enumerate([*case["tokens"], "a", "b"])]
    ends = {end for end in ends if end < len(tokens)}
    state = automaton.advance(automaton.start, case["text"].encode())
    allowed = list(automaton.allowed_tokens(state, _bytes(tokens), ends))
    said = f"{case['pattern']} after {case['text']!r}, tokens {tokens}"
    yield f"{said}, end tokens {sorted(ends)}: {allowed}"


def _mask_case(draw: Draw) -> Case:
    size = draw.integer(1, 20)
    return {"size": size, "ids": draw.list_of(lambda d: d.integer(0, 59) % size, 0, 6)}


@behaviour(task=2, cases=_mask_case, examples=80)
def packs(case: Case) -> Lines:
    """a mask has a bit for each token

    Which byte is the token's bit in, and which bit of that byte is it?
    """
    mask = bytes(reference.bitmask(sorted(set(case["ids"])), case["size"]))
    yield f"{case['size']} tokens: {len(mask)} bytes"
    yield f"tokens {sorted(set(case['ids']))} of {case['size']}: {mask.hex()}"
