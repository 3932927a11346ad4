"""Lesson 7: the token budget of a step, and how a long prompt goes through it in chunks."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import gaps, token_steps, work_per_step
from minivllm.lessons.teacher.script import Script, Teacher, lesson

BUDGET = 16
LONG_PROMPT = 40
ROOM = 64
"""`max_model_len` of the engine that may not cut a prompt: its step must hold the longest one
whole.
"""


@lesson(
    7,
    "token-budget",
    "The token budget, prefill and decode, chunked prefill",
    minutes=9,
    needs=("batching",),
)
def run(L: Teacher) -> Script:
    engine = _engine(L, "chunks", BUDGET)
    _two_talk(engine)
    yield L.say(
        "`ada` and `bob` are being answered, one token a step each. A step that gives a sequence"
        " one new token is a **decode**; one that works through its prompt is a **prefill**. One"
        " step may hold both. How much may it hold?",
        focus="budget",
    )
    yield L.say(
        f"A step has a **token budget**, `max_num_batched_tokens`, here {BUDGET}: the most tokens"
        " that may go through the model in it, all sequences together. The more tokens, the longer"
        " the step takes, and everybody in the batch waits until it is over."
    )
    engine.add("diary", _diary(), max_tokens=4)
    yield L.predict(
        f"Now `diary` comes, with a prompt of {LONG_PROMPT} tokens. How many of them go into the"
        " next step?",
        before=engine.step,
        answer=lambda: engine.scheduled("diary"),
        focus="budget",
        unit="token",
        why={
            LONG_PROMPT: f"More than the budget of {BUDGET}. The prompt is cut.",
            BUDGET: "ada and bob were served first, with one token each.",
            0: "It need not fit whole: a part of it is welcome.",
            1: (
                "That is for those who write. A prompt is known, so many of its tokens can be"
                " computed at once."
            ),
        },
        because=(
            "Running sequences first, then the prompt gets what is left. That is **chunked"
            " prefill**."
        ),
    )
    left = BUDGET - 2
    L.check(
        "ada and bob got their token in the same step",
        engine.scheduled("ada") == engine.scheduled("bob") == 1,
    )
    L.check("diary has no answer yet", not engine.output_tokens("diary"))
    start = engine.fold.step - 1
    yield L.predict(
        f"{left} of {LONG_PROMPT} are done. ada and bob go on. Counting from the step just taken,"
        " in which one does diary get its first token?",
        before=lambda: engine.run_until(lambda: bool(engine.output_tokens("diary"))),
        answer=lambda: token_steps(engine, "diary")[0] - start,
        focus="step_history",
        why={
            1: "The model must have read the whole prompt before it can say what comes next.",
            2: f"Two chunks are {2 * left} tokens.",
            4: "The chunk that reads the last prompt token also predicts the first new one.",
        },
        because=lambda: (
            f"The chunks were {', '.join(map(str, engine.facts.requests['diary'].chunks))}: only"
            " the last one predicts."
        ),
    )
    chunks = engine.facts.requests["diary"].chunks
    L.check(f"the chunks are {LONG_PROMPT} tokens together", sum(chunks) == LONG_PROMPT)
    L.check(
        "ada and bob missed no step meanwhile",
        set(gaps(engine, "ada") + gaps(engine, "bob")) == {1},
    )
    engine.run()
    most = max(work_per_step(engine))
    chunked_first = token_steps(engine, "diary")[0] - start
    L.check(f"no step held more than {BUDGET} tokens", most <= BUDGET)
    yield L.say(
        "Nobody stood still while the long prompt went through. Before chunks were thought of, a"
        " prompt went through whole or not at all: `enable_chunked_prefill=False`. Then a step must"
        " be able to hold the longest prompt, so the budget must be large. Let us watch that."
    )
    whole = _engine(L, "whole prompts", ROOM, enable_chunked_prefill=False, max_model_len=ROOM)
    _two_talk(whole)
    whole.add("diary", _diary(), max_tokens=4)
    yield L.predict(
        f"The same three, a budget of {ROOM}, prompts uncut. ada's next token comes when the next"
        " step is over. How many tokens of work does that step hold?",
        before=whole.step,
        answer=lambda: work_per_step(whole)[-1],
        focus="budget",
        unit="token",
        why={
            1: "That is her own share. The step ends for all at once.",
            LONG_PROMPT: "And ada and bob, with one each.",
            ROOM: "That is the most it could hold.",
            2: "The prompt fits into this budget, so it goes in too.",
        },
        because=(
            f"In chunks it was never more than {BUDGET}. People see this as a text that freezes"
            " when somebody else sends a long prompt."
        ),
    )
    whole_first = token_steps(whole, "diary")[0] - start
    L.check("diary has its first token after one step", whole_first == 1)
    yield L.say(
        "Our virtual clock calls every step equally long; a real one does not. With chunks diary's"
        f" first token came {chunked_first} short steps after its arrival, now after {whole_first}"
        " long one. The budget trades: small is smooth for those who read along, large is soon for"
        " those who have just asked.",
        focus="step_history",
    )
    whole.run()
    _two_talk(whole, "eve", "finn")
    for name, first in (("gil", 3), ("hana", 60)):
        whole.add(name, list(range(first, first + LONG_PROMPT)), max_tokens=2)
    yield L.predict(
        f"Uncut prompts once more. Two run; `gil` and `hana` come together with {LONG_PROMPT}"
        f" tokens each. How many of the budget's {ROOM} tokens stay **unused** in the next step?",
        before=whole.step,
        answer=lambda: ROOM - work_per_step(whole)[-1],
        focus="budget",
        unit="token",
        why={
            0: "That would need a piece of hana's prompt, and here prompts are not cut.",
            ROOM - LONG_PROMPT: "eve and finn had one each.",
        },
        because=(
            "hana's prompt does not fit into what is left, so she waits and the room stays empty:"
            " the fragmentation of lesson 3, now in time."
        ),
    )
    last = whole.events_of(ev.RequestDeferred)[-1]
    L.check(
        f"hana was put off: she needs {last.need} tokens and {last.free} were left",
        last.reason == "token_budget",
    )
    whole.run()
    tight = _engine(L, "tight", 3)
    for number, name in enumerate(("ada", "bob", "cleo", "dan")):
        tight.add(name, list(range(10 + 9 * number, 13 + 9 * number)), max_tokens=8)
    tight.run_until(lambda: bool(tight.output_tokens("cleo")))
    yield L.say(
        "And a budget that is too small? This engine has 4 slots and a budget of 3 tokens. ada, bob"
        " and cleo are through with their prompts; dan waits. There is a free slot, and memory"
        " too.",
        focus="budget",
    )
    yield L.predict(
        "Each of the three wants 8 tokens in all. When is dan let in?",
        before=lambda: tight.run_until(lambda: tight.is_running("dan")),
        answer=lambda: _when_let_in(tight),
        choices=("in the next step", "in turn with the others", "after somebody has ended"),
        focus="timelines",
        why={
            "in the next step": "The three before him take the three tokens, in each step.",
            "in turn with the others": (
                "Nobody takes turns here: who runs comes first, in every step."
            ),
        },
        because=(
            "Who runs is served first, in every step. So a budget should be no smaller than the"
            " number of slots; vLLM refuses such a pair."
        ),
    )
    last = [event for event in tight.events_of(ev.RequestDeferred) if event.seq_id == "dan.0"][-1]
    L.check(
        f"dan was put off with {last.free} tokens of the budget left",
        (last.reason, last.free) == ("token_budget", 0),
    )
    tight.run()
    yield L.say(
        "Now the surprise: the scheduler has no prefill phase, no decode phase and no code for"
        " chunks. A sequence has `num_tokens` (all it knows) and `num_computed_tokens` (whose keys"
        " and values are stored). **Each step gives it tokens so that the second catches up with"
        " the first**, as far as the budget lasts."
    )
    yield L.predict(
        "By that rule, how many tokens would a sequence with 40 known and 39 computed tokens be"
        " given?",
        answer=lambda: _one_behind(engine),
        unit="token",
        why={
            40: "39 of them are in the cache.",
            39: "Those are done.",
            BUDGET: "It is not that far behind.",
        },
        because=(
            "One behind: that is all a decode is. A fresh prompt is many behind, and cut short by"
            " the budget it is a chunk. One rule."
        ),
    )
    yield L.say(
        "In the code: `Scheduler._schedule_running` and `Scheduler._schedule_waiting` in"
        " `minivllm/core/scheduler.py`; look for `min(sequence.num_tokens - start, budget)`. vLLM"
        " has the same line of thought in `vllm/v1/core/sched/scheduler.py`, whose comment says"
        " that there is no decoding phase nor prefill phase."
    )
    yield L.say(
        "To play: `minivllm demo --scenario long-and-short`, then change `max_num_batched_tokens`"
        " while it runs. And most of the work on a long prompt can be saved if somebody has sent"
        " the same page before. That is the next lesson."
    )


def _engine(L: Teacher, name: str, budget: int, **options: object) -> LessonEngine:
    return L.engine(
        name,
        num_blocks=64,
        block_size=4,
        max_num_seqs=4,
        max_num_batched_tokens=budget,
        enable_prefix_caching=False,
        **options,
    )


def _two_talk(engine: LessonEngine, *names: str) -> None:
    """Two answers under way, both past their prompts."""
    for number, name in enumerate(names or ("ada", "bob")):
        engine.add(name, list(range(10 + 30 * number, 15 + 30 * number)), max_tokens=12)
    engine.step(2)


def _diary() -> list[int]:
    return list(range(100, 100 + LONG_PROMPT))


def _when_let_in(engine: LessonEngine) -> str:
    """When dan's turn came, on the engine with a slot for each of the four."""
    came = next(
        event.step for event in engine.events_of(ev.RequestAdmitted) if event.seq_id == "dan.0"
    )
    if any(event.step < came for event in engine.events_of(ev.RequestFinished)):
        return "after somebody has ended"
    three_run = all(set(gaps(engine, name)) == {1} for name in ("ada", "bob", "cleo"))
    return "in the next step" if three_run else "in turn with the others"


def _one_behind(engine: LessonEngine) -> int:
    """What the scheduler gave whoever had all but one of its tokens computed."""
    decodes = {
        event.num_tokens for event in engine.events_of(ev.StepScheduled) if event.kind == "decode"
    }
    return max(decodes)
