"""Lesson 7: the token budget of a step, and how a long prompt goes through it in chunks."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import gaps, token_steps, work_per_step
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Script, Teacher, lesson

BUDGET = 16
LONG_PROMPT = 40
ROOM = 64
"""`max_model_len` and budget of the engine without chunks: a step must hold the longest prompt."""


@lesson(
    7, "token-budget", "The token budget, prefill and decode, chunked prefill", minutes=9, pages=23,
    needs=("batching",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = _engine(L, "chunked prefill", BUDGET)
    yield from _a_prompt_in_chunks(L, engine)
    yield from _a_prompt_uncut(L, engine)
    yield from _a_small_budget(L)
    yield from _one_rule(L, engine)


def _a_prompt_in_chunks(L: Teacher, engine: LessonEngine) -> Script:
    _two_talk(engine)
    L.focus("budget")
    yield L.say("""`ada` and `bob` are being answered, one token per step each. A step that gives a
        sequence one new token is a **decode** for it; a step that processes its prompt is a
        **prefill**. One step can do both, for different sequences. How many tokens can it
        process?""")
    yield L.say(f"""A step has a **token budget**, `max_num_batched_tokens`, here {BUDGET}: the most
        tokens that may go through the model in one step, all sequences together. More tokens make a
        step longer, and every request in the batch waits for its end.""")
    engine.add("diary", engine.tokens(DIARY, LONG_PROMPT), max_tokens=4)
    yield L.predict(
        f"""Now `diary` arrives with a prompt of {LONG_PROMPT} tokens. How many of them go into the
        next step? [token]
        - {LONG_PROMPT}: That is more than the budget of {BUDGET}, so the prompt is cut.
        - {BUDGET}: ada and bob were scheduled first, with one token each.
        - 0: The prompt does not have to fit whole: a part of it can run.
        - 1: One token per step is what a **decoding** request gets. A prompt is known in advance,
          so many of its tokens can run at once.
        = Running sequences come first, and the prompt gets the rest: **chunked prefill**.""",
        before=engine.step,
        answer=lambda: engine.scheduled("diary"),
    )
    left = BUDGET - 2
    L.check(
        "ada and bob got their tokens in the same step",
        engine.scheduled("ada") == engine.scheduled("bob") == 1,
    )
    L.check("diary has no output yet", not engine.output_tokens("diary"))
    start = engine.fold.step - 1
    yield L.predict(
        f"""{left} of {LONG_PROMPT} tokens are done, and ada and bob go on. Count the step just
        taken as step 1. In which step does diary get its first token?
        - 1: The model must process the whole prompt before it can predict the next token.
        - 2: Two chunks are only {2 * left} tokens.
        - 4: The chunk with the last prompt token also predicts the first new one.""",
        before=lambda: engine.run_until(lambda: bool(engine.output_tokens("diary"))),
        answer=lambda: token_steps(engine, "diary")[0] - start,
        focus="step_history",
        because=lambda: (
            f"The chunks were {', '.join(map(str, engine.facts.requests['diary'].chunks))}. Only"
            " the last one gives a new token."
        ),
    )
    chunks = engine.facts.requests["diary"].chunks
    L.check(f"the chunks add up to {LONG_PROMPT} tokens", sum(chunks) == LONG_PROMPT)
    L.check(
        "ada and bob missed no step meanwhile",
        set(gaps(engine, "ada") + gaps(engine, "bob")) == {1},
    )
    engine.run()
    most = max(work_per_step(engine))
    L.check(f"no step held more than {BUDGET} tokens", most <= BUDGET)
    yield from _budget_and_context(L, engine)
    yield L.say("""No request had to pause for the long prompt. Before chunked prefill, a prompt had
        to go through whole: `enable_chunked_prefill=False`. Then a step must be able to hold the
        longest prompt, so the budget must be large. Let us watch that.""")


def _budget_and_context(L: Teacher, engine: LessonEngine) -> Script:
    scheduled = engine.events_of(ev.StepScheduled)
    last = max(event.step for event in scheduled if event.seq_id == "diary.0")
    shared = [event for event in scheduled if event.step == last]
    context = sum(event.num_computed_tokens + event.num_tokens for event in shared)
    yield L.predict(
        f"""In the last step that ada, bob and diary shared, they had {context} tokens together. All
        but the newest of each were in the cache. How many tokens of the budget did this step use?
        [token]
        - {context}: The budget limits the tokens **computed** in a step, and not those that it
          looks back at. The context needs blocks, not budget.
        - {BUDGET}: Nothing else was there to compute.
        - else: Each of the three computes its newest token only.
        = One for each. `max_num_batched_tokens` does not limit how long contexts are.""",
        answer=lambda: sum(event.num_tokens for event in shared),
    )


def _a_prompt_uncut(L: Teacher, engine: LessonEngine) -> Script:
    """`engine` has run the same requests with chunks."""
    whole = _engine(L, "whole prompts", ROOM, enable_chunked_prefill=False, max_model_len=ROOM)
    _two_talk(whole)
    start = whole.fold.step
    whole.add("diary", whole.tokens(DIARY, LONG_PROMPT), max_tokens=4)
    yield L.predict(
        f"""The same three requests, a budget of {ROOM}, and prompts are not cut. ada's next token
        comes when the next step ends. How many tokens does that step process? [token]
        - 1: That is ada's own share, but the step ends for all of them together.
        - {LONG_PROMPT}: ada and bob get one token each as well.
        - {ROOM}: That is the most that it could process.
        - 2: The prompt fits into this budget, so it goes in too.
        = With chunks it was never more than {BUDGET}. Users see this as a text that freezes when
          someone else sends a long prompt.""",
        before=whole.step,
        answer=lambda: work_per_step(whole)[-1],
        focus="budget",
    )
    chunked_first, whole_first = (token_steps(run, "diary")[0] - start for run in (engine, whole))
    L.check("diary has its first token after one step", whole_first == 1)
    L.focus("step_history")
    yield L.say(f"""Our virtual clock makes all steps equally long; a real clock does not. With
        chunks, diary's first token came after {chunked_first} short steps, now after {whole_first}
        long one. A small budget keeps inter-token latency low for running requests; a large one
        gives new requests their first token sooner.""")
    whole.run()
    _two_talk(whole, "eve", "finn")
    for name in ("gil", "hana"):
        whole.add(name, LONG_PROMPT, max_tokens=2)
    yield L.predict(
        f"""Prompts are still not cut. Two requests run; `gil` and `hana` arrive together with
        {LONG_PROMPT} tokens each. How many of the budget's {ROOM} tokens stay **unused** in the
        next step? [token]
        - 0: That would need a piece of hana's prompt, but here prompts are not cut.
        - {ROOM - LONG_PROMPT}: eve and finn got one token each.
        = hana's prompt does not fit into the rest of the budget, so she waits and that rest is
          wasted: like the unusable remainder of lesson 3, but in time.""",
        before=whole.step,
        answer=lambda: ROOM - work_per_step(whole)[-1],
        focus="budget",
    )
    last = whole.events_of(ev.RequestDeferred)[-1]
    L.check(
        f"hana was deferred: she needs {last.need} tokens, and {last.free} were left",
        last.reason == "token_budget",
    )
    whole.run()


def _a_small_budget(L: Teacher) -> Script:
    tight = _engine(L, "a budget of 3 tokens", 3)
    for name in ("ada", "bob", "cleo", "dan"):
        tight.add(name, 3, max_tokens=8)
    tight.run_until(lambda: bool(tight.output_tokens("cleo")))
    yield L.say("""And if the budget is too small? This engine has 4 batch slots and a budget of 3
        tokens. The prompts of ada, bob and cleo have been processed; dan waits. A slot is free, and
        so is memory.""")
    yield L.predict(
        """Each of the three wants 8 tokens in all. When is dan admitted?
        - in the next step: The three requests before him use all three tokens, in every step.
        - in turn with the others: Requests do not take turns: running ones come first in every
          step.
        - after a request has ended
        = Running requests are scheduled first, in every step. So the budget should be at least the
          number of slots, `max_num_seqs`; vLLM refuses a smaller budget.""",
        before=lambda: tight.run_until(lambda: tight.is_running("dan")),
        answer=lambda: _when_let_in(tight),
        focus="timelines",
    )
    last = [event for event in tight.events_of(ev.RequestDeferred) if event.seq_id == "dan.0"][-1]
    L.check(
        f"dan was deferred with {last.free} tokens of the budget left",
        (last.reason, last.free) == ("token_budget", 0),
    )
    tight.run()


def _one_rule(L: Teacher, engine: LessonEngine) -> Script:
    scheduled = engine.events_of(ev.StepScheduled)
    yield L.say("""Now the surprise: the scheduler has no prefill phase, no decode phase and no code
        for chunks. A sequence has `num_tokens` (all its tokens) and `num_computed_tokens` (those
        with stored keys and values). **Each step gives it tokens so that the second number catches
        up with the first**, as far as the budget allows.""")
    yield L.predict(
        f"""By that rule, how many tokens would a sequence get that has 40 tokens, 39 of them
        computed? [token]
        - 40: 39 of them are in the cache.
        - 39: Those are done.
        - {BUDGET}: It is only one token behind.
        = One token behind: that is all a decode is. A new prompt is many tokens behind, and a
          prompt that the budget cuts is a chunk. One rule covers all three.""",
        answer=lambda: max(item.num_tokens for item in scheduled if item.kind == "decode"),
    )
    yield L.say("""In the code: `Scheduler._schedule_running` and `Scheduler._schedule_waiting` in
        `minivllm/core/scheduler.py`; look for `min(sequence.num_tokens - start, budget)`. vLLM
        works the same way: a comment in `vllm/v1/core/sched/scheduler.py` says that there is no
        decoding phase nor prefill phase.""")
    yield L.say("""Try it: run `minivllm demo --scenario long-and-short` and change
        `max_num_batched_tokens` while it runs. Most of the work on a long prompt can be saved if
        another request has sent the same text before. That is the next lesson.""")


def _engine(L: Teacher, name: str, budget: int, **options: object) -> LessonEngine:
    return L.engine(
        name, num_blocks=64, block_size=4, max_num_seqs=4, max_num_batched_tokens=budget,
        enable_prefix_caching=False, **options,
    )  # fmt: skip


def _two_talk(engine: LessonEngine, *names: str) -> None:
    """Start two answers and take two steps, so that both prompts have been processed."""
    for name in names or ("ada", "bob"):
        engine.add(name, 5, max_tokens=12)
    engine.step(2)


def _when_let_in(engine: LessonEngine) -> str:
    """When dan was admitted, on the engine with a slot for each of the four."""
    came = next(
        event.step for event in engine.events_of(ev.RequestAdmitted) if event.seq_id == "dan.0"
    )
    if any(event.step < came for event in engine.events_of(ev.RequestFinished)):
        return "after a request has ended"
    three_run = all(set(gaps(engine, name)) == {1} for name in ("ada", "bob", "cleo"))
    return "in the next step" if three_run else "in turn with the others"
