"""Lesson 15: what a grammar does to the distribution, and which tokens it gives for nothing."""

import json
from textwrap import wrap

from minivllm.events import types as ev
from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP
from minivllm.lessons.scenarios.stories import is_json
from minivllm.lessons.shown import tokens
from minivllm.lessons.shown.tokens import names, next_bytes, percent
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import num_accepted, token_steps
from minivllm.lessons.teacher.script import Script, Teacher, lesson
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.structured_output.reference import RegexAutomaton, bitmask, vocabulary_bytes

RECORD = "Write a JSON record for Hana, 27, from Tokyo."
CAPITAL = "What is the capital of France?"
CITIES = ("Oslo", "Paris", "Rome")
SENTENCE = r"The capital of France is (Oslo|Paris|Rome)\."
YES_OR_NO = "(yes|no)+"
HOT = {"temperature": 1.6, "seed": 2, "max_tokens": 40, "ignore_eos": False}
OPTIONS = {
    "num_blocks": 16, "block_size": 8, "max_num_seqs": 2, "max_num_batched_tokens": 64,
    "explain_tokens": True,
}  # fmt: skip
WORD = {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}
PROPERTIES = {
    "name": WORD,
    "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "city": WORD,
    "favourite_food": {"enum": ["bread", "nuts"]},
}


@lesson(
    15, "grammar", "What a grammar does to the distribution", minutes=12, pages=34,
    needs=("tokens", "speculation"),
)  # fmt: skip
def run(L: Teacher) -> Script:
    free, formed = _engine(L, "without a grammar"), _engine(L, "with a schema")
    free.add("ada", RECORD, chat=True, **HOT)
    free.run()
    L.show(free)
    L.focus("finished")
    yield L.say("""A program that reads an answer needs a **form** that it can rely on: JSON, a
        date, one of three words. A prompt can only ask for it. A **grammar** makes sure. This
        lesson shows how it works, and what it cannot do.""")
    yield L.say(
        f"""`ada` asks `{RECORD}`, at a temperature of {HOT["temperature"]}, which is too hot for
        this small model. No program can read her answer:""",
        figure=tuple(wrap(free.text("ada"), 40)),
    )
    L.check("her answer is not JSON", not is_json(free.text("ada")))
    yield from _an_automaton(L)
    vocabulary = vocabulary_bytes(free.engine.tokenizer)
    yield from _tokens(L, vocabulary, sorted(free.engine.tokenizer.eos_token_ids))
    yield from _the_mask(L, free, formed, len(vocabulary))
    yield from _the_distribution(L)
    yield from _forced_tokens(L)
    yield from _what_a_mask_costs(L, vocabulary)
    yield L.say("""In the code: `minivllm/structured_output/reference.py` is the automaton,
        `grammar.py` beside it the library's, and `minivllm/speculation/proposers.py` drafts forced
        tokens. In vLLM: `vllm/v1/structured_output`. The options are `structured_outputs` in both,
        and `response_format` over HTTP.""")
    yield L.say("""Try it: `minivllm demo --scenario structured` asks the same questions with a
        grammar and without. Select a request on the Choice screen (key 7) and see what was refused.
        The exercise `token-mask` lets you write the automaton. The next lesson compares all with
        vLLM.""")


def _an_automaton(L: Teacher) -> Script:
    automaton = RegexAutomaton(YES_OR_NO)
    yield L.predict(
        f"""A regular expression can be read as a machine: it takes one byte after the other, and
        knows what may come next. The pattern is `{YES_OR_NO}`, and the text so far is `no`. How
        many different bytes may come next? [byte]
        - 0: The `+` means once or more, so another word may follow.
        - 1: Two words may follow, with two different first bytes.
        - else: Which words may follow, and with which byte does each begin?
        = `y` and `n`. The text may end here, too: that is a second thing to know.""",
        answer=lambda: len(next_bytes(automaton, "no")),
    )
    L.check(
        "after a refused byte, nothing can ever follow",
        not next_bytes(automaton, "nox") and not next_bytes(automaton, "noxy"),
    )
    yield L.say(
        """What is left of the pattern is the **state** of the machine. It is all that a grammar has
        to remember about a text. A byte that does not fit leads to **nothing**, and there is no way
        back.""",
        figure=tokens.states_figure(automaton, ("", "n", "no", "ye", "nox")),
    )


def _tokens(L: Teacher, vocabulary: list[bytes | None], ends: list[int]) -> Script:
    automaton = RegexAutomaton(YES_OR_NO)
    allowed = {text: _allowed(automaton, text, vocabulary) for text in (b"", b"n", b"no")}
    yield L.predict(
        f"""But a model draws **tokens**, {len(vocabulary):,} of them here. A token is allowed if
        the machine can read all its bytes. For the first token, {names(vocabulary, allowed[b""])}
        are allowed: words need not be whole tokens. The vocabulary has tokens `o`, `on` and `one`.
        Which are allowed after `n`?
        - `o`: A token may also reach into the next word: `n`, then `on`.
        - `o` `on`
        - `o` `on` `one`: After `no`, a word begins with `ne`, and that is neither.
        = Tokens do not care for the borders of a grammar.""",
        answer=lambda: names(vocabulary, allowed[b"n"]),
    )
    yield L.predict(
        f"""This model has {len(ends)} tokens that end an answer, one for texts and one for chats.
        After `no`, the tokens {names(vocabulary, allowed[b"no"])} can follow. How many tokens are
        allowed in all? [token]
        - {len(allowed[b"no"])}: The text may also end here.
        - {len(ends)}: The text may also go on.
        - else: The text may go on, or end.
        = **End-of-sequence** is allowed only where the text may end, so none is too early.""",
        answer=lambda: len(_allowed(automaton, b"no", vocabulary, ends)),
    )
    L.check(
        "after `n`, no end token is allowed",
        _allowed(automaton, b"n", vocabulary, ends) == allowed[b"n"],
    )


def _allowed(
    automaton: RegexAutomaton, text: bytes, vocabulary: list[bytes | None], ends: list[int] = ()
) -> list[int]:
    return automaton.allowed_tokens(automaton.advance(automaton.start, text), vocabulary, ends)


def _the_mask(L: Teacher, free: LessonEngine, formed: LessonEngine, vocab_size: int) -> Script:
    yield L.predict(
        f"""What a grammar says before each token is a **mask**: one bit for each of {vocab_size:,}
        tokens. How many bytes is that? [byte]
        - {vocab_size}: That would be a byte for each token; a byte has 8 bits.
        - else: A byte has 8 bits.
        = A refused token gets the logit -inf, before temperature, top-k and top-p.""",
        answer=lambda: len(bitmask([], vocab_size)),
    )
    form = StructuredOutputsParams(json=_schema("name", "age", "city"), whitespace_pattern=" ?")
    formed.add("ada", RECORD, chat=True, structured_outputs=form, **HOT)
    formed.add("ada again", RECORD, chat=True, structured_outputs=form, **HOT | {"seed": 10})
    L.show(formed)
    yield L.predict(
        f"""`ada` asks again, just as hot, with a JSON schema: name and city are words with a
        capital, and age is a number up to 120. Before, she got `{free.text("ada")[:24]}…` and then
        noise. What can the schema **not** prevent?
        - a text that is not JSON: Every token that breaks the form is refused.
        - a name in small letters: That is part of the form: the schema says it.
        - a wrong name""",
        before=formed.run,
        answer=lambda: _not_prevented([formed.text(name) for name in ("ada", "ada again")]),
        because=lambda: (
            f"She gets `{formed.text('ada')}`. With another seed the name is"
            f" {json.loads(formed.text('ada again'))['name']}: of the right form, and wrong."
        ),
    )


def _the_distribution(L: Teacher) -> Script:
    engine = _engine(L, "three cities")
    choice = StructuredOutputsParams(choice=list(CITIES))
    engine.add("bob", CAPITAL, chat=True, ignore_eos=False, structured_outputs=choice)
    engine.step()
    event = engine.events_of(ev.TokenExplained)[0]
    left = [candidate for candidate in event.candidates if candidate.cut_by is None]
    best = max(left, key=lambda candidate: candidate.probability)
    total = best.probability / best.tempered_probability
    yield L.say(
        f"""What does a mask do to the probabilities? `bob` asks `{CAPITAL}`, and may answer only
        {", ".join(CITIES[:-1])} or {CITIES[-1]}. These are the candidates for his first token.""",
        focus="slots",
        figure=tokens.mask_figure(engine, event)[:7],
    )
    word = engine.fold.token_pieces[best.token_id]
    yield L.predict(
        f"""The model gave `{word}` {percent(best.probability)}, and all allowed tokens together
        {percent(total)}. The mask keeps their proportions, and makes them add up to 100 %. What is
        the probability of `{word}` then? [%]
        - 100: Other tokens are allowed, too.
        - else: {percent(best.probability)} of {percent(total)}.
        = A mask is a cut like top-k, but it does not ask how likely a token was.""",
        answer=lambda: round(100 * best.tempered_probability, 1),
        tolerance=0.05,
    )
    L.choose("bob")
    yield L.predict(
        """So what does bob answer, greedily, with only these three cities to choose from?
        - Oslo
        - Paris: The model knows it, but has learned to say it at the end of a sentence, not first.
        - Rome
        - else: The model never begins an answer with a city.
        = The mask forced the model off its path, and on a strange one it only guesses.""",
        before=engine.run,
        answer=lambda: engine.text("bob"),
        focus="choice",
    )
    yield from _the_models_own_form(L, engine)


def _the_models_own_form(L: Teacher, other: LessonEngine) -> Script:
    engine = _engine(L, "the city in a whole sentence")
    form = StructuredOutputsParams(regex=SENTENCE)
    engine.add("bob", CAPITAL, 16, chat=True, ignore_eos=False, structured_outputs=form)
    yield L.predict(
        f"""Now the pattern is `{SENTENCE}`. It allows the same three cities. What does he answer?
        - {other.text("bob")}: Here each token up to the city is what the model wanted anyway.
        - else: Each token up to the city is what the model wanted anyway.
        = Here the mask changed nothing: the model wrote its own sentence.""",
        before=engine.run,
        answer=lambda: next(city for city in CITIES if city in engine.text("bob")),
        choices=CITIES,
        focus="slots",
    )
    L.check("the two forms give different cities", other.text("bob") not in engine.text("bob"))
    yield L.say("""This is the honest part: **a grammar checks the form, and never what is true**.
        It can force words that the model finds very unlikely, and all later words follow them. So
        ask for the form in the prompt, too, and choose one that the model would write itself.""")


def _forced_tokens(L: Teacher) -> Script:
    plain = _engine(L, "without jump-forward")
    jumping = _engine(L, "jump-forward", speculative_config=PROMPT_LOOKUP)
    form = StructuredOutputsParams(json=_schema(*PROPERTIES), whitespace_pattern=" ?")
    for engine in (plain, jumping):
        engine.add("cleo", RECORD, 60, chat=True, ignore_eos=False, structured_outputs=form)
    plain.run()
    L.show(plain)
    steps, states = len(set(token_steps(plain, "cleo"))), plain.events_of(ev.GrammarState)
    yield L.predict(
        """`cleo`'s schema also requires a property `favourite_food`. Properties come in its order.
        And where only one text can follow, the library `llguidance` allows only its usual tokens.
        Her text is `{"`. How many tokens can follow? [token]
        - 4: Only `name` can come first.
        - 2: `n` fits, too, but `name` is one usual token.
        - else: Only the text `name` can follow, and it is one usual token.
        = The token is **forced**. Whatever the model wants, there is nothing to choose.""",
        answer=lambda: states[1].num_allowed,
        focus="choice",
    )
    num_forced = sum(state.forced for state in states)
    L.check(f"{num_forced} of her {len(states)} tokens were forced", num_forced > 3)
    L.show(jumping)
    yield L.predict(
        f"""Her answer took {steps} steps, and {num_forced} of its {len(states)} tokens were forced.
        With lesson 14's drafts, the forced ones can be drafted without any model, and prompt lookup
        finds one or two more. How many steps does the answer take then? [step]
        - {steps}: A step with right drafts gives several tokens.
        - 1: Between forced tokens there are choices, and a choice needs the model.
        - else: A step gives the drafts in a row, and one token of the model.""",
        before=jumping.run,
        answer=lambda: len(set(token_steps(jumping, "cleo"))),
        focus="step_history",
        tolerance=0.2,
        because=lambda: (
            f"{num_accepted(jumping)} drafts were right, each a step less: forced ones, and some"
            " that prompt lookup found. This is **jump-forward**."
        ),
    )
    yield L.say(
        """Look at her text. After `Tokyo` the model wanted `"}`, one token that ends the record.
        The schema refused it, because a property was missing. Of the tokens that were left, another
        letter was the likeliest. **Forced off its path**, even a right answer can go wrong.""",
        figure=tuple(wrap(jumping.text("cleo"), 40)),
    )
    L.check("both answers are equal", plain.output_tokens("cleo") == jumping.output_tokens("cleo"))
    wanted = tokens.wanted_after(plain, "Tokyo")
    L.check(f"after Tokyo it wanted `{wanted}`", wanted == '"}')
    yield from _rolling_back(L, jumping)


def _rolling_back(L: Teacher, engine: LessonEngine) -> Script:
    encode = engine.engine.tokenizer.encode
    read, now = encode('{"name": "Hana", "age": 27, '), encode('{"name": "Hana", "age": 30')
    common = [old == new for old, new in zip(read, now, strict=False)].index(False)
    yield L.predict(
        f"""But other drafts can be wrong. The grammar has read the {len(read)} tokens of `{{"name":
        "Hana", "age": 27, `, and the text became `{{"name": "Hana", "age": 30`: the first {common}
        tokens are the same. How many tokens must the grammar **roll back**? [token]
        - {len(read)}: What both have in common is still right.
        - else: All that it has read behind the common part.
        = So the engine reports neither rejections nor preemptions to the grammar: before each mask,
          it compares.""",
        answer=lambda: len(read) - common,
    )


def _what_a_mask_costs(L: Teacher, vocabulary: list[bytes | None]) -> Script:
    pieces = [piece for piece in vocabulary if piece]
    L.focus("slots")
    yield L.say(f"""What does a mask cost? Our automaton reads all {sum(map(len, pieces)):,} bytes
        of the vocabulary for each mask, and a large model has fifty times as many. `llguidance`
        keeps the tokens in a **tree**: tokens that begin alike share a branch, and a refused byte
        refuses the whole branch.""")
    branch = [piece for piece in pieces if piece.startswith(b"A")]
    yield L.predict(
        f"""The grammar allows only texts that begin with `A`. Our automaton tries {len(pieces):,}
        tokens. The tree refuses all other first bytes at once, and walks one branch. How many
        tokens are in it?
        - fewer than 10
        - hundreds: It has {len(branch)}. Tokens begin with many different bytes.
        - all: Only tokens that begin with `A` are in that branch.
        = So a mask takes microseconds. It must be ready when the logits are, for each sequence and
          each step.""",
        answer=lambda: "fewer than 10" if len(branch) < 10 else "hundreds",
    )
    L.check("most tokens are not looked at", len(branch) < len(pieces) / 10)


def _engine(L: Teacher, name: str, **options: object) -> LessonEngine:
    return L.engine(name, **OPTIONS, **options)


def _not_prevented(texts: list[str]) -> str:
    """Which of three faults the answers with a schema have."""
    if not all(map(is_json, texts)):
        return "a text that is not JSON"
    names = {json.loads(text)["name"] for text in texts}
    if any(name[0].islower() for name in names):
        return "a name in small letters"
    return "a wrong name" if names != {"Hana"} else "none"


def _schema(*names: str) -> dict[str, object]:
    properties = {name: PROPERTIES[name] for name in names}
    schema = {"type": "object", "additionalProperties": False}
    return {**schema, "properties": properties, "required": list(names)}
