"""Lesson 0: what serving is: users, one engine and one device, and three requests at once."""

from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import token_steps
from minivllm.lessons.teacher.script import Script, Teacher, lesson

THREE = ("ada", "bob", "cleo")
BEGIN = ("Once", "Nobody", "Near")
LATE = "dan"
CROWD = ("eve", "finn", "gil", "hana", "ada", "bob")
PROMPT = 8
WISH = 16
"""As in `/generate`, if a request does not say how many tokens it wants."""
SLOTS = 4
NEXT, ONE_ENDED, ALL_ENDED = "in the next step", "when one answer ends", "when all answers end"


@lesson(0, "what-serving-is", "What serving is: many users, one engine", minutes=6, pages=15)
def run(L: Teacher) -> Script:
    engine = _engine(L, "")
    yield L.say(
        """A language model is a file of numbers, its **weights**. Given a text, it computes which
        piece comes next. **Serving** means keeping the weights in memory and answering many users
        with them. The **engine** plans what runs; the **device**, a GPU or this CPU, runs it.""",
        focus="slots",
        figure=(
            " ada  ┐",
            " bob  ┼─> engine ─> device",
            " cleo ┘   plans     computes",
        ),
    )
    yield from _three_at_once(L, engine)
    yield from _one_more(L)
    yield from _a_crowd(L)
    yield L.say(
        """Users want the first word soon and the next ones without pauses: a low **latency**. The
        owner of the device wants many words per second for all users together: a high
        **throughput**. Most of what an engine decides is a compromise of the two, and the lessons
        show each decision.""",
        focus="timelines",
        diagram="serving",
    )
    yield L.say("""In the code: `minivllm/server/` is the HTTP side, `minivllm/engine/engine.py` the
        engine, `minivllm/runtime/` the device's part. **vLLM** is a widely used open-source engine,
        and minivllm a small one of its design: there they are `vllm/entrypoints/openai`,
        `vllm/v1/engine` and `vllm/v1/worker`.""")
    yield L.say(
        """Try it on your own server, in three terminals: `minivllm serve house --events` loads a
        small model and waits for requests. `minivllm attach http://localhost:8000` draws what its
        engine does. In the third, type the lines below: three users ask at the same moment (`&`).
        They are done at once: `←` steps back. The next lesson: how a text becomes numbers.""",
        figure=(
            "url=localhost:8000/generate",
            *(f'curl $url -d \'{{"prompt": "{begin}"}}\' &' for begin in BEGIN),
            "wait",
        ),
    )


def _three_at_once(L: Teacher, engine: LessonEngine) -> Script:
    for name in THREE:
        _ask(engine, name)
    yield L.predict(
        """`ada`, `bob` and `cleo` each press Enter on a `curl` at the same moment. The engine works
        in **steps**: a step is one pass through the model. On how many of the three requests does
        its first step work? [request]
        - 1: A queue at a counter works like that. One pass of the model can serve several.
        - 0: The engine waits for nobody: there is work, so it starts.
        = All three share this pass, and so the weights, which are in memory once for all users.""",
        before=engine.step,
        answer=lambda: len(engine.fold.scheduled),
    )
    L.check("no request waits", not engine.fold.waiting)
    yield L.predict(
        f"""In one step a request gets one **token**, a short piece of text. Each of the three wants
        {WISH} tokens. After how many steps do all three have their answers? [step]
        - {len(THREE) * WISH}: That is one user after another. Here each step serves all three.
        - 1: A token depends on the one before it, so an answer cannot come in one step.
        - {WISH // len(THREE)}: They do not share out the tokens: each gets its own.
        = Each step gave every user one token.""",
        before=engine.run,
        answer=lambda: engine.fold.step,
        focus="timelines",
    )
    alone = {name: _engine(L, f"only {name}") for name in THREE}
    for name, lone in alone.items():
        _ask(lone, name)
        lone.run()
    L.show(engine)
    L.check(
        f"each user alone would have needed {WISH} steps as well",
        {lone.fold.step for lone in alone.values()} == {WISH},
    )
    yield L.predict(
        f"""Three users shared every pass of the model. For how many of them is the text different
        from the text that they would get alone? [user]
        - {len(THREE)}: The requests share weights and time, but no text.
        - 2: It does not matter who came first.
        - else: The requests share weights and time, but no text.
        = This engine decides **when** your token is computed, never **which** token it is.""",
        answer=lambda: sum(
            engine.output_tokens(name) != lone.output_tokens(name) for name, lone in alone.items()
        ),
        focus="finished",
    )


def _one_more(L: Teacher) -> Script:
    engine = _engine(L, "a late user")
    for name in THREE:
        _ask(engine, name)
    engine.step(4)
    joined = engine.fold.step + 1
    _ask(engine, LATE)
    yield L.predict(
        f"""The same three again, after 4 of their {WISH} steps. Now `{LATE}` sends a request, too.
        When does the engine begin with it?
        - {NEXT}
        - {ONE_ENDED}: Only if all places were taken. Three of {SLOTS} are.
        - {ALL_ENDED}: Old servers did that. Lesson 5 measures what it costs.
        = Each step begins with a new plan, so a request can join between any two steps. It cannot
          join a step that is already running.""",
        before=engine.step,
        answer=lambda: NEXT if token_steps(engine, LATE) == [joined] else ONE_ENDED,
        focus="slots",
    )
    L.check("the three others got a token in that step, too", len(engine.fold.scheduled) == SLOTS)
    engine.run()


def _a_crowd(L: Teacher) -> Script:
    engine = _engine(L, "a crowd")
    for name in CROWD:
        _ask(engine, name)
    yield L.predict(
        f"""Now {len(CROWD)} users ask at once, and this engine may run at most {SLOTS} requests in
        a step (vLLM's option `max_num_seqs`). How many wait after the first step? [request]
        - 0: There are {SLOTS} places and {len(CROWD)} requests.
        - {len(CROWD) - 1}: One request does not hold up the others: four run together.
        - {SLOTS}: Those are running.
        = Why a limit at all? Each running request needs memory of its own on the device. What it
          holds, and how to waste none of it, is a large part of this course.""",
        before=engine.step,
        answer=lambda: len(engine.fold.waiting),
        focus="waiting",
    )
    engine.run()
    L.check(
        "all of them were answered in the end",
        all(len(engine.output_tokens(name)) == WISH for name in CROWD),
    )


def _engine(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=16, block_size=32, max_num_seqs=SLOTS, max_num_batched_tokens=64,
        enable_prefix_caching=False,
    )  # fmt: skip


def _ask(engine: LessonEngine, name: str) -> None:
    engine.add(name, PROMPT, max_tokens=WISH)
