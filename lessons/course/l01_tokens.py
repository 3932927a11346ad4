"""Lesson 1: a tokenizer cuts text into tokens, and a model writes one token per step."""

from minivllm.events import types as ev
from minivllm.lessons.shown.drawings import step_loop
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

TEXT = "Once there was a dragonfly named Olga"
WANTED = 8
SHOWN = 9
"""The most tokens that a page lists."""
RARE, LONG, SYLLABLES = "it is a rare word", "it is too long", "tokens are syllables"


@lesson(1, "tokens", "Tokens, and the loop that writes one at a time", minutes=7, pages=16)
def run(L: Teacher) -> Script:
    engine = L.engine(
        "one token after another", num_blocks=32, block_size=16, max_num_batched_tokens=64,
        max_num_seqs=2, enable_prefix_caching=False,
    )  # fmt: skip
    pieces = engine.pieces(TEXT)
    words, characters = len(TEXT.split()), len(TEXT)

    L.focus("slots")
    yield L.say(f"""A language model does not read letters. A **tokenizer** cuts the text into
        tokens, pieces from a fixed vocabulary of {engine.loaded.config.vocab_size:,}, and the model
        sees their numbers. This engine really runs `{engine.loaded.name}`: every picture here is
        drawn from what it does.""")
    yield L.predict(
        f"""The text `{TEXT}` is {words} words, {characters} characters and {len(pieces)} tokens:
        {_shown(pieces)} `everybody` has as many letters as `dragonfly`, and is one token. Why is
        `dragonfly` cut?
        - {RARE}
        - {LONG}: A token can be long: `everybody` is one.
        - {SYLLABLES}: The pieces are not syllables: they were learned from text.
        = A tokenizer merges letters that were often together in its training text. A frequent word
          becomes one token; a rare one stays in pieces.""",
        answer=lambda: RARE if _is_one_token(engine, "everybody") else LONG,
    )
    L.check("joined together, the tokens are the text again", "".join(pieces) == TEXT)
    engine.add("ada", TEXT, max_tokens=WANTED)
    L.focus("waiting")
    yield L.say(f"""Now a user, `ada`, sends this prompt and wants **{WANTED} more tokens**. The
        request waits, because the engine works in steps and has made none yet. One **step** is one
        pass of the model over the tokens that were chosen for it.""")
    yield L.predict(
        f"""The first step gives the whole prompt to the model, {len(pieces)} tokens at once. How
        many new tokens does it produce? [token]
        - {WANTED}: The model cannot write them all at once: each token depends on the one before
          it, which is not known yet.
        - {len(pieces)}: The model does make a prediction at every position, but we already know the
          prompt. Only the prediction after its last token is useful.
        - 0: The pass over the prompt already ends with a prediction of the next token.
        = One pass gives one new token per **sequence**, the growing text of a request.""",
        before=engine.step,
        answer=lambda: len(engine.output_tokens("ada")),
        focus="slots",
    )
    L.check(
        f"in step 1, {len(pieces)} tokens of ada went through the model",
        engine.scheduled("ada") == len(pieces),
    )
    L.check("one token was sampled", len(engine.events_of(ev.TokenSampled)) == 1)
    yield L.say(f"""The pass ends with a score, a **logit**, for each of the
        {engine.loaded.config.vocab_size:,} tokens. Sampling picks one of them; with `temperature` 0
        it picks the highest. The new token is appended to the prompt: ada has
        {engine.num_tokens("ada")} tokens now.""")
    yield L.predict(
        f"""The second step must find the token after these {engine.num_tokens("ada")}. How many
        tokens does the engine give to the model this time? [token]
        - {len(pieces) + 1}: A naive loop does that. This engine keeps what the model computed for
          the older tokens: that is the next lesson.
        - {len(pieces)}: The prompt was already processed in step 1.
        = Only the newest token is new to the model. A step like this is a **decode**; the step over
          the prompt was a **prefill**.""",
        before=engine.step,
        answer=lambda: engine.scheduled("ada"),
        focus="budget",
    )
    L.check("ada has two tokens of output", len(engine.output_tokens("ada")) == 2)
    yield L.predict(
        f"""ada wants {WANTED} tokens and has 2, after 2 steps. How many steps will the whole answer
        take? [step]
        - {WANTED + 1}: The step that processes the prompt also writes the first token.
        - {WANTED - 2}: That is the number of steps that are still missing.
        - 3: The rest cannot come in one step: each token needs the one before it.
        = {WANTED} tokens take {WANTED} passes. So a long answer takes long, however short the
          question is.""",
        before=engine.run,
        answer=lambda: engine.fold.step,
        focus="finished",
    )
    first = engine.output_tokens("ada")
    L.check(f"ada got {WANTED} tokens in {WANTED} steps", len(first) == engine.fold.step == WANTED)
    yield L.say(
        f"""ada received: `{_short(engine.text("ada"))}`. The loop ends when the answer has
        `max_tokens` tokens, when the model writes its end-of-text token, or when a stop string
        appears. Then the engine forgets the request.""",
        figure=step_loop(),
        diagram="step-loop",
    )
    engine.add("bob", TEXT, max_tokens=WANTED)
    yield L.predict(
        """`bob` sends the same prompt, also with temperature 0. Will he get the same tokens as ada?
        - yes
        - no: Nothing is random here: only sampling can bring in chance.
        = The same tokens give the same logits, and temperature 0 picks the highest one.""",
        before=engine.run,
        answer=lambda: "yes" if engine.output_tokens("bob") == first else "no",
    )
    L.check("bob's tokens are ada's", engine.output_tokens("bob") == first)
    for name, seed in (("cleo", 1), ("dan", 1), ("eve", 2)):
        engine.add(name, TEXT, max_tokens=WANTED, temperature=1.0, seed=seed)
    engine.run()
    cleo, dan, eve = map(engine.output_tokens, ("cleo", "dan", "eve"))
    yield L.say("""With a temperature above 0 the sampler may draw a less likely token. Chance comes
        from a number, the **seed**, and from the position in the text. So even random answers can
        be repeated. `cleo`, `dan` and `eve` asked the same at temperature 1: two with one seed, one
        with another.""")
    L.check("two requests with the same seed got the same tokens", cleo == dan)
    L.check("a different seed gave different tokens", eve != cleo)


def _shown(pieces: list[str]) -> str:
    return " ".join(f"`{piece}`" for piece in pieces[:SHOWN]) + (
        " and so on." if len(pieces) > SHOWN else "."
    )


def _is_one_token(engine: LessonEngine, word: str) -> bool:
    return len(engine.pieces(f" {word}")) == 1


def _short(text: str) -> str:
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= 60 else text[:60] + "…"
