"""Lesson 14: speculative decoding, which is free for one request and costly for sixteen."""

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.lessons.shown import tokens
from minivllm.lessons.shown.roofline import H100
from minivllm.lessons.shown.tokens import in_words
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.measure import num_accepted, num_drafted, token_steps
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Script, Teacher, lesson
from minivllm.speculation import drafter

PROMPT = "Repeat three times: Olga sees the moon"
GUESSES = 4
LOOKUP = {
    "method": "ngram",
    "num_speculative_tokens": GUESSES,
    "prompt_lookup_max": 3,
    "prompt_lookup_min": 1,
}
MANY = 16
BUDGET = 20
BF16 = 2
OPTIONS = {
    "num_blocks": 16, "block_size": 4, "max_num_seqs": 2, "max_num_batched_tokens": BUDGET,
    "enable_prefix_caching": False,
}  # fmt: skip


@lesson(
    14, "speculation", "Speculative decoding: free for one request, costly for sixteen",
    minutes=12, pages=33, needs=("token-budget", "bytes"),
)  # fmt: skip
def run(L: Teacher) -> Script:
    plain = _engine(L, "without drafts")
    _ask(plain)
    plain.run()
    num_tokens = len(plain.output_tokens("ada"))
    L.focus("step_history")
    yield L.say("""A decode reads all weights for one token, and the arithmetic is nearly idle
        (lesson 13). A prompt is faster, because many of its tokens go through the model together.
        Could an answer do that? Each of its tokens depends on the one before, so the next ones are
        not known. But they can be **guessed**.""")
    yield L.say(f"""`ada` asks: `{PROMPT}`. Without guesses, her {num_tokens} tokens took
        {_num_steps(plain)} steps. Her text repeats itself, so the guess is easy: look where the
        last tokens occurred before, and take what followed there. This is **prompt lookup**; the
        guessed tokens are **drafts**.""")
    rehearsal, engine = (_engine(L, "with drafts", speculative_config=LOOKUP) for _ in range(2))
    for each_engine in (rehearsal, engine):
        _ask(each_engine)
    rehearsal.run()
    engine.step(_step_to_watch(rehearsal) - 1)
    yield from _one_verification(L, plain, engine)
    yield from _the_same_tokens(L, plain, engine)
    yield from _a_draft_model(L)
    yield from _what_it_costs(L)
    yield from _drafts_yield(L)
    yield L.say("""In the code: `minivllm/speculation/proposers.py` drafts,
        `minivllm/speculation/drafter.py` plans, `minivllm/speculation/verify.py` keeps and rolls
        back. In vLLM: `vllm/v1/spec_decode/ngram_proposer.py`,
        `vllm/v1/sample/rejection_sampler.py`. The option is `speculative_config` in both, with the
        same fields.""")
    yield L.say("""Try it: `minivllm demo --scenario speculation` shows drafts and what becomes of
        them, and `minivllm bench speculation` measures one request and sixteen on your machine. The
        next lesson decides which tokens may be drawn at all.""")


def _one_verification(L: Teacher, plain: LessonEngine, engine: LessonEngine) -> Script:
    known, computed = engine.num_tokens("ada"), engine.sequence("ada").num_computed_tokens
    yield L.predict(
        f"""ada's text so far has {known} tokens, {computed} of them computed, and she gets
        {GUESSES} drafts. How many of her tokens go through the model in the next step? [token]
        - 1: That is a decode without drafts.
        - {GUESSES}: The last known token is not computed yet, so it goes through, too.
        = For the scheduler it is like a chunk of a prompt: tokens that are not computed yet, under
          the same budget.""",
        before=engine.phase,
        answer=lambda: engine.scheduled("ada"),
        focus="budget",
    )
    drafts = engine.events_of(ev.DraftProposed)[-1].token_ids
    truth = plain.output_tokens("ada")[len(engine.output_tokens("ada")) :]
    yield L.predict(
        f"""After each of the {1 + GUESSES} tokens, a token is drawn. The drafts are
        {in_words(engine, drafts)} (`·` is a space, `↵` a line break). Without drafts came
        {in_words(engine, truth[: len(drafts)])}. How many drafts are **accepted**? [draft]
        - {GUESSES}: A draft is accepted only if it is the token that the engine draws there.
        - else: Compare from the left, and stop at the first difference.
        = After a wrong draft, the further rows continue a text that does not exist.""",
        before=engine.step,
        answer=lambda: engine.events_of(ev.DraftVerified)[-1].num_accepted,
    )
    accepted = engine.events_of(ev.DraftVerified)[-1].num_accepted
    drawn = truth[: accepted + 1]
    yield L.predict(
        f"""{accepted} drafts were right. How many tokens has this one step added to ada's answer?
        [token]
        - {accepted}: There is one more: the row after the last right draft continued the real text,
          so its token counts.
        - {1 + GUESSES}: Only if all drafts are right.
        = Even if all drafts are wrong, a step gives one token, as without drafts.""",
        answer=lambda: token_steps(engine, "ada").count(engine.fold.step),
    )
    yield L.say(
        """The drafts, and below each what the model drew in its place; the last place follows the
        last draft. After a wrong draft, nothing counts. The first token that differs is the model's
        own, and final.""",
        figure=tokens.drafts_and_drawn(engine, drafts, drawn),
    )
    yield from _roll_back(L, engine, computed, accepted)


def _roll_back(L: Teacher, engine: LessonEngine, computed: int, accepted: int) -> Script:
    """computed: ada's computed tokens before the step"""
    yield L.predict(
        f"""Before the step, {computed} of ada's tokens were computed, and the step computed
        {1 + GUESSES} more. Then {accepted} of {GUESSES} drafts were accepted. What is
        `num_computed_tokens` now? [token]
        - {computed + 1 + GUESSES}: The keys and values of rejected drafts belong to tokens that do
          not exist.
        - {computed + accepted + 2}: The model's own token was drawn; the next step computes it.
        - {computed}: The accepted drafts were computed with the right tokens before them.
        - else: The known token and the accepted drafts stay computed.
        = That is the whole **roll-back**: one number. The next step writes over the slots of
          rejected drafts.""",
        answer=lambda: engine.sequence("ada").num_computed_tokens,
        focus="blockmap",
    )
    step = engine.events_of(ev.DraftVerified)[-1].step
    L.check(
        "a block that held only rejected drafts was released in the same step",
        any(event.step == step for event in engine.events_of(ev.BlockReleased)),
    )
    L.check(
        "one token is not computed: the model's own",
        engine.num_tokens("ada") - engine.sequence("ada").num_computed_tokens == 1,
    )
    yield L.say(
        """Drafts need slots, so a table may get a block for them, and gives it back if nothing in
        it is final. Blocks get a hash only up to the last final token. So no other request can ever
        find a rejected draft in the prefix cache.""",
        diagram="speculation",
    )


def _the_same_tokens(L: Teacher, plain: LessonEngine, engine: LessonEngine) -> Script:
    num_plain = _num_steps(plain)
    yield L.predict(
        f"""Without drafts the whole answer took {num_plain} steps. How many does it take with
        {GUESSES} drafts at most in each? [step]
        - {num_plain}: Each right draft saves a step.
        - {-(-num_plain // (1 + GUESSES))}: That would need only right drafts, from the first token
          on.
        - else: Steps without a match give one token, and wrong drafts save nothing.""",
        before=engine.run,
        answer=lambda: _num_steps(engine),
        focus="step_history",
        tolerance=0.25,
        because=lambda: (
            f"{num_accepted(engine)} of {num_drafted(engine)} drafts were right. Each of them saved"
            " a step."
        ),
    )
    L.check("both answers are equal", _outputs(plain) == _outputs(engine))
    sampled = [_engine(L, name, **options) for name, options in (
        ("temperature 1.3 without drafts", {}),
        ("temperature 1.3 with drafts", {"speculative_config": LOOKUP}),
    )]  # fmt: skip
    for trial in sampled:
        _ask(trial, temperature=1.3, seed=7)
    yield L.predict(
        """So far the most probable token always won. Now a temperature of 1.3, which draws tokens
        by chance, and the same seed with and without drafts. What changes in the text?
        - nothing
        - its words: In vLLM they may: its rejection sampling keeps only the probabilities of tokens
          the same. Here even the draws are.
        - only words after a wrong draft: At a wrong draft, the model's own token is taken: the one
          it would have drawn.
        = Random numbers depend only on seed, sequence, position and token. So each row draws what
          it would have drawn alone.""",
        before=lambda: [trial.run() for trial in sampled],
        answer=lambda: "nothing" if len({*map(_outputs, sampled)}) == 1 else "its words",
    )
    L.check("these drafts were verified, too", num_drafted(sampled[1]) > 0)


def _a_draft_model(L: Teacher) -> Script:
    own = {"method": "draft_model", "model": L.shown.loaded.name, "num_speculative_tokens": GUESSES}
    engine = _engine(L, "a model that drafts for itself", speculative_config=own)
    _ask(engine, temperature=1.3, seed=7)
    yield L.say("""Prompt lookup helps only where a text repeats itself. For others, a second and
        much smaller model can draft: `draft_model`. It has its own KV cache, and here it draws with
        the same random numbers as the large model.""")
    yield L.predict(
        """As an experiment, let the model draft for itself, still at temperature 1.3. How many
        percent of its drafts are accepted? [%]
        - 50: It is the same model with the same random numbers, so it draws the same token.
        - 0: It is the same model with the same random numbers, so it draws the same token.
        - else: It is the same model with the same random numbers.
        = But nothing is gained: each draft cost a whole pass of the model. A draft must be much
          cheaper than a step.""",
        before=engine.run,
        answer=lambda: round(100 * num_accepted(engine) / num_drafted(engine)),
    )


def _what_it_costs(L: Teacher) -> Script:
    times = tokens.measured_step_times()
    alone, many = 1 + GUESSES, MANY * (1 + GUESSES)
    yield L.say(
        f"""Now the price of a wrong draft: its row goes through the model for nothing. Measured
        with SmolLM2 in float32 on a CPU: the time of a step by its number of rows, over that of
        one. Up to {drafter.CHEAP_ROWS} rows or so, reading the weights takes longer than
        computing.""",
        focus="budget",
        figure=tokens.step_times_figure(times),
    )
    yield L.predict(
        f"""**One request**: with {GUESSES} drafts, a step has {alone} rows and takes {times[alone]}
        times as long. How many tokens must it give on average, so that drafts pay? [token]
        - {alone}: That is the most that it can give.
        - 2: Two tokens in a step would already be nearly twice as fast.
        - else: As many as the step is longer.
        = One right draft in ten steps is enough: for one request, drafts are nearly free.""",
        answer=lambda: times[alone] / times[1],
        tolerance=0.1,
    )
    ratio = times[many] / times[MANY]
    yield L.predict(
        f"""**{MANY} requests**: without drafts {MANY} rows, a time of {times[MANY]}; with {GUESSES}
        drafts each, {many} rows and {times[many]}. How many tokens must a step give each request,
        so that drafts pay? [token]
        - {alone}: That is the most that it can give.
        - {times[alone]}: That was for one request.
        - {times[many]}: Compare with the step without drafts, which already has many rows.
        - else: {times[many]} over {times[MANY]}.
        = Drafts use arithmetic that is idle. A batch uses it already, and each of its rows is
          certain to count.""",
        answer=lambda: ratio,
        tolerance=0.1,
    )
    L.check(f"that is {ratio * times[1] / times[alone]:.1f} times as many as for one", ratio > 2)
    balance = round(H100.operations_per_byte * BF16 / 2)
    yield L.say(f"""So with these weights drafts are free at batch one and costly at sixteen.
        Weights in Q4_1 (lesson 13) are read sooner: there, {alone} rows take twice as long as one.
        On an {H100.name}, arithmetic becomes the limit only at about {balance} rows: {MANY}
        requests with drafts are still cheap, {balance // (1 + GUESSES)} are not.""")


def _drafts_yield(L: Teacher) -> Script:
    engine = _engine(
        L, "sixteen requests", speculative_config=LOOKUP, num_blocks=32 * MANY, max_num_seqs=BUDGET,
        max_num_batched_tokens=512,
    )  # fmt: skip
    for number in range(MANY):
        _ask(engine, f"r{number}", ignore_eos=True, max_tokens=40)
    engine.run_until(lambda: num_drafted(engine) > 0)
    first = {len(event.token_ids) for event in engine.events_of(ev.DraftProposed)}
    L.check(
        f"{MANY} requests together drafted at most {max(first)} tokens each at first, and not"
        f" {GUESSES} like ada alone",
        max(first) < GUESSES,
    )
    engine.engine.set_option("max_num_batched_tokens", BUDGET)
    yield L.say("""So the engine drafts less in a full batch. It knows for each request how many of
        its last drafts were right, and drafts only as far as all are probably right. After two
        failures in a row a request pauses, for longer each time. And drafts come last in the
        budget.""")
    yield L.predict(
        f"""{MANY} requests like ada's decode together, under a budget of {BUDGET} tokens. How many
        drafts can the next step verify at most, for all of them? [draft]
        - {MANY * GUESSES}: Drafts and decodes share one budget.
        - {BUDGET}: The {MANY} decodes come first, one token each.
        - 0: The decodes leave some tokens of the budget.
        - else: The {MANY} decodes come first.
        = Drafts get what is left, so they never delay a token that is certain.""",
        before=engine.step,
        answer=lambda: sum(item.num_tokens - 1 for item in engine.fold.scheduled),
    )
    before = num_drafted(engine)
    engine.add("diary", engine.tokens(DIARY, 40), max_tokens=1)
    yield L.predict(
        f"""Now `diary` arrives with a prompt of 40 tokens. How many drafts does the next step
        verify? [draft]
        - {BUDGET - MANY}: A chunk of the prompt comes before drafts.
        = Drafts yield to every kind of real work: to decodes, prompts and admissions.""",
        before=engine.step,
        answer=lambda: num_drafted(engine) - before,
    )
    L.check(
        f"diary got the {BUDGET - MANY} tokens that were left",
        engine.scheduled("diary") == BUDGET - MANY,
    )


def _engine(L: Teacher, name: str, **options: object) -> LessonEngine:
    return L.engine(name, **{**OPTIONS, **options})


def _ask(engine: LessonEngine, name: str = "ada", **params: object) -> None:
    engine.add(name, PROMPT, chat=True, **{"max_tokens": 24, "ignore_eos": False, **params})


def _num_steps(engine: LessonEngine) -> int:
    return len(set(token_steps(engine, "ada")))


def _outputs(engine: LessonEngine) -> tuple[int, ...]:
    return tuple(engine.output_tokens("ada"))


def _step_to_watch(engine: LessonEngine) -> int:
    """The first step that accepts some of its drafts, and releases a block for others."""
    released = {event.step for event in engine.events_of(ev.BlockReleased)}
    drafted = {event.step: len(event.token_ids) for event in engine.events_of(ev.DraftProposed)}
    for event in engine.events_of(ev.DraftVerified):
        if 0 < event.num_accepted < drafted[event.step] == GUESSES and event.step in released:
            return event.step
    raise LessonError(
        f"This lesson needs an answer that repeats itself, and {engine.loaded.name} gave none:"
        " leave --model out."
    )
