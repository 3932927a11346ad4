"""Lesson 1: a text is cut into tokens, and a model writes one token a step."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.script import Script, Teacher, lesson

TEXT = "The capital of France is"
WANTED = 8


@lesson(1, "tokens", "Tokens, and the loop that writes one at a time", minutes=7, text_matters=True)
def run(L: Teacher) -> Script:
    engine = L.engine(
        num_blocks=32,
        block_size=16,
        max_num_batched_tokens=64,
        max_num_seqs=2,
        enable_prefix_caching=False,
    )
    pieces = engine.pieces(TEXT)
    words, characters = len(TEXT.split()), len(TEXT)

    yield L.say(
        "A language model reads no letters. A **tokenizer** cuts the text into tokens, pieces from"
        f" a fixed list of {engine.loaded.config.vocab_size:,}, and the model sees their numbers."
        f" This engine runs `{engine.loaded.name}`, for real: every picture here is drawn from what"
        " it does.",
        focus="slots",
    )
    yield L.predict(
        f"The prompt is `{TEXT}`: {words} words, {characters} characters. Into how many tokens does"
        " this model's tokenizer cut it?",
        answer=lambda: len(pieces),
        unit="token",
        why={
            words: (
                "A word is often a token, but which pieces there are was learned from text, not"
                " from a dictionary."
            ),
            characters: (
                "Larger tokenizers join letters that often stand together, so most tokens are"
                " longer than one."
            ),
        },
        because=lambda: f"They are {_shown(pieces)}",
    )
    L.check("the tokens put together are the text again", "".join(pieces) == TEXT)
    engine.add("ada", TEXT, max_tokens=WANTED)
    yield L.say(
        f"Now somebody, `ada`, sends this prompt and wants **{WANTED} more tokens**. The request"
        " waits: an engine works in steps, and there has been none yet. One **step** is one pass"
        " of the model over the tokens that were chosen for it.",
        focus="waiting",
    )
    yield L.predict(
        f"The first step gives the whole prompt to the model, {len(pieces)} tokens at once. How"
        " many new tokens come out of it?",
        before=engine.step,
        answer=lambda: len(engine.output_tokens("ada")),
        focus="slots",
        unit="token",
        why={
            WANTED: (
                "It cannot write them together: each depends on the one before, which is not known"
                " yet."
            ),
            len(pieces): (
                "The model predicts something at each of them, but the prompt is given: only the"
                " last prediction is new."
            ),
            0: "The pass over the prompt already ends in a prediction of what comes next.",
        },
        because="One pass, one new token for each text.",
    )
    L.check(f"step 1 gave ada {len(pieces)} tokens of work", engine.scheduled("ada") == len(pieces))
    L.check("one token was sampled", len(engine.events_of(ev.TokenSampled)) == 1)
    yield L.say(
        "The pass ends in a score, a **logit**, for each of the"
        f" {engine.loaded.config.vocab_size:,} tokens. Sampling picks one of them; `temperature` 0"
        " picks the highest. The new token is put behind the prompt: ada has"
        f" {engine.num_tokens('ada')} tokens now."
    )
    yield L.predict(
        f"The second step must find the token after these {engine.num_tokens('ada')}. How many"
        " tokens does the engine give to the model this time?",
        before=engine.step,
        answer=lambda: engine.scheduled("ada"),
        focus="budget",
        unit="token",
        why={
            len(pieces) + 1: (
                "That is what a plain loop does. What the model worked out for the older tokens is"
                " kept: the next lesson."
            ),
            len(pieces): "The prompt was worked through in step 1.",
        },
        because=(
            "Only the newest token is new to the model. Steps like this are called **decode**, the"
            " one before **prefill**."
        ),
    )
    L.check("ada has two tokens of output", len(engine.output_tokens("ada")) == 2)
    yield L.predict(
        f"ada wants {WANTED} tokens and has 2, after 2 steps. How many steps will it have taken in"
        " all when the answer is complete?",
        before=engine.run,
        answer=lambda: engine.fold.step,
        focus="finished",
        unit="step",
        why={
            WANTED + 1: "The step that reads the prompt writes the first token, too.",
            WANTED - 2: "Those are the steps that are still missing.",
            3: "All the rest in one step would need tokens that are not known yet.",
        },
        because=(
            f"{WANTED} tokens, {WANTED} passes: this loop is why long answers take long, however"
            " short the question."
        ),
    )
    first = engine.output_tokens("ada")
    L.check(f"ada got {WANTED} tokens in {WANTED} steps", len(first) == engine.fold.step == WANTED)
    yield L.say(
        f"ada was told: `{_short(engine.text('ada'))}`. The loop is over when the answer has its"
        " `max_tokens`, when the model writes its end-of-text token, or when a stop string turns"
        " up. Then the engine forgets the request."
    )
    engine.add("bob", TEXT, max_tokens=WANTED)
    yield L.predict(
        "`bob` sends the same prompt, also with temperature 0. Will he get the same tokens as ada?",
        before=engine.run,
        answer=lambda: "yes" if engine.output_tokens("bob") == first else "no",
        choices=("yes", "no"),
        why={
            "no": (
                "A model is a function: the same tokens in, the same logits out. Chance comes in by"
                " sampling alone."
            )
        },
    )
    L.check("bob's tokens are ada's", engine.output_tokens("bob") == first)
    for name, seed in (("cleo", 1), ("dan", 1), ("eve", 2)):
        engine.add(name, TEXT, max_tokens=WANTED, temperature=2.0, seed=seed)
    engine.run()
    cleo, dan, eve = map(engine.output_tokens, ("cleo", "dan", "eve"))
    L.check("two requests with one seed got the same tokens", cleo == dan)
    L.check("another seed gave others", eve != cleo)
    yield L.say(
        "With a temperature above 0 a less likely token may be drawn. `cleo`, `dan` and `eve` asked"
        " the same at temperature 2: two with one seed, one with another. The draw depends on the"
        " seed and the position alone, so even chance can be repeated.",
        focus="finished",
    )


def _shown(pieces: list[str]) -> str:
    """The first tokens, so that their edges can be seen."""
    return " ".join(f"`{piece}`" for piece in pieces[:6]) + (
        " and so on." if len(pieces) > 6 else "."
    )


def _short(text: str) -> str:
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= 60 else text[:60] + "…"
