"""Sampling: from logits to one token, and why that token is the same in any batch."""

from minivllm.events import types as ev
from minivllm.lessons.shown import tokens
from minivllm.lessons.shown.tokens import count, explained, word
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

TEXT = "The fox saw a small"
SURE = "One morning Paul went to the river to"  # here, one token is nearly certain
ASKED, DRAWS = 20, 100
TEMPERATURES = (0.5, 1.0, 2.0)
BELOW_OR_ABOVE = {"cold": "below 1", "t0": "below 1", "t2": "above 1"}  # of requests
TOP_K, TOP_P, MIN_P = 5, 0.65, 0.1
FEW = 2
SEED = 19
"""With it, neither the most likely token nor the one with the smallest random number wins."""
WISH, SAMPLES = 12, 3
TIGHT = 6  # blocks, too few for two answers
OPTIONS = {"num_blocks": 256, "max_num_seqs": 32, "explain_tokens": True}


@lesson(
    11, "sampling", "Sampling: how one token is chosen", minutes=12, pages=33,
    needs=("batching", "copy-on-write", "preemption"),
)  # fmt: skip
def run(L: Teacher) -> Script:
    greedy = _engine(L, "greedy sampling")
    tokens.refuse_other_models(greedy)
    yield from _greedy(L, greedy)
    yield from _temperature(L, _engine(L, "a temperature"))
    cuts = _engine(L, "top-k, top-p and min-p")
    yield from _cuts(L, cuts)
    yield from _a_cut_that_adapts(L, cuts)
    yield from _the_race(L, _engine(L, "a race of tokens"))
    yield from _the_same_in_any_batch(L)
    yield from _samples(L)
    yield L.say("""In the code: `minivllm/runtime/sampling/logits_processors.py` has temperature and
        the cuts, `sampler.py` beside it the random numbers and the race. In vLLM:
        `vllm/v1/sample/sampler.py`. The parameters have the same names and the same order. But the
        same seed gives different tokens there.""")
    yield L.say("""Try it: `minivllm demo --explain-tokens`, key 7. The strip at the foot shows how
        likely each word was; `<` and `>` walk along it, and the panel says why each token won. Then
        write top-p yourself: `minivllm exercise start top-p`.""")


def _greedy(L: Teacher, engine: LessonEngine) -> Script:
    _draw(L, engine, "ada", temperature=0.0)
    best, second = explained(engine, "ada").candidates[:2]
    top, other = word(engine, best.token_id), word(engine, second.token_id)
    queue = _engine(L, "greedy sampling")
    L.show(engine, focus="choice")
    L.choose("ada")
    yield L.say(f"""A step ends with a row of **logits**, one score for each of the
        {explained(engine, "ada").vocab_size:,} tokens. **Softmax** turns them into probabilities.
        `ada` sent `{TEXT}`. The model gives `{top}` {best.probability:.1%} and `{other}`
        {second.probability:.1%}. How does one token come out of that?""")
    yield L.predict(
        f"""Most lessons use **greedy** sampling, `temperature=0`. {ASKED} users send this text, and
        each gets one token. How many of them get `{other}`? [user]
        - {round(ASKED * second.probability)}: That would be a draw, and greedy draws nothing.
        - {ASKED // 2}: The two are nearly equal, but greedy sampling always takes the first.
        = Greedy takes the largest logit, however small its lead: `{top}`, every time.""",
        before=lambda: (L.show(queue), _many(queue, ASKED)),
        answer=lambda: count(queue, second.token_id),
        focus="finished",
    )
    L.check(f"all {ASKED} users got `{top}`", count(queue, best.token_id) == ASKED)


def _temperature(L: Teacher, engine: LessonEngine) -> Script:
    for number, temperature in enumerate(TEMPERATURES):
        _draw(L, engine, f"t{number}", temperature=temperature)
    cold, plain, hot = (explained(engine, f"t{number}") for number in range(3))
    first, second, third = plain.candidates[:3]
    times = first.probability / third.probability
    names = word(engine, first.token_id), word(engine, third.token_id)
    L.focus("choice")
    yield L.say(f"""To draw at random, first divide all logits by the **temperature**, then take the
        softmax. At temperature 1, `{names[0]}` is {times:.2f} times as likely as `{names[1]}`:
        their logits differ by {first.logit - third.logit:.2f}, and {times:.2f} is e to this
        power.""")
    yield L.predict(
        f"""Temperature {TEMPERATURES[-1]:g} halves each logit. How many times as likely is
        `{names[0]}` as `{names[1]}` then? [time]
        - {round(times / 2, 1)}: The **logits** are halved, not the probabilities.
        - {round(2 * times, 1)}: A high temperature makes probabilities more equal, not less.
        - {round(times, 1)}: The difference of the two logits is halved, too.
        - else: Halve the difference of the logits, and take e to this power.
        = The square root of {times:.2f}: a high temperature flattens the distribution. In the
          panel, even `{word(engine, hot.token_id)}` has won, with
          {hot.chosen.final_probability:.1%}.""",
        answer=lambda: tokens.ratio(hot, first.token_id, third.token_id),
        tolerance=0.1,
    )
    yield L.say(
        """The same logits at three temperatures. A low one sharpens the distribution, a high one
        gives unlikely tokens a chance:""",
        figure=tokens.temperatures_figure(engine, (cold, plain, hot)),
    )
    yield L.predict(
        f"""At which temperature is `{word(engine, second.token_id)}`, the second token, more likely
        than `{names[0]}`?
        - below 1: A low temperature makes the lead of the best token larger.
        - above 1: A high temperature makes the two more equal, but never swaps them.
        - at no temperature
        = Dividing by one number keeps the order. Towards 0, all probability goes to the best token:
          greedy sampling is the limit.""",
        before=lambda: _draw(L, engine, "cold", temperature=0.002),
        answer=lambda: tokens.second_leads(engine, first.token_id, second.token_id, BELOW_OR_ABOVE),
    )
    L.check(
        f"at temperature 0.002, `{names[0]}` has nearly 100 %",
        explained(engine, "cold").candidates[0].tempered_probability > 0.99,
    )


def _cuts(L: Teacher, engine: LessonEngine) -> Script:
    _draw(L, engine, "plain")
    plain = explained(engine, "plain")
    tail = 1 - sum(candidate.tempered_probability for candidate in plain.candidates[:8])
    best, second, third = plain.candidates[:3]
    name = word(engine, best.token_id)
    yield L.say(f"""At temperature 1, the eight best tokens have {1 - tail:.0%} together. The other
        {plain.vocab_size - 8:,} are each unlikely, and mostly nonsense here, but {tail:.0%} of all
        draws would hit one of them. So a request can cut off this **tail**: `top_k`, `top_p`,
        `min_p`.""")
    shown = " and ".join(
        f"`{word(engine, token.token_id)}` {token.probability:.1%}" for token in (best, second)
    )
    yield L.predict(
        f"""`top_k={FEW}` keeps the {FEW} most likely tokens: {shown}. What is the probability of
        `{name}` in the draw? [%]
        - {round(100 * best.probability, 1)}: What is left must add up to 100 %.
        - 50: A cut keeps the proportions of what is left, and these two are not equal.
        - else: Divide its probability by the sum of both.
        = A cut token gets 0, and the others grow by the same factor.""",
        before=lambda: _draw(L, engine, "topk", top_k=FEW),
        answer=lambda: round(100 * explained(engine, "topk").candidates[0].final_probability, 1),
        tolerance=0.01,
    )
    yield L.predict(
        f"""`top_p={TOP_P}` keeps the smallest set of best tokens with at least {TOP_P:.0%}
        together. {shown}, `{word(engine, third.token_id)}` {third.probability:.1%}, the next even
        less. How many tokens stay? [token]
        - 2: They do not reach the line. The token that crosses it stays, too.
        - 1: It has only {best.probability:.1%}.
        - 4: Three already have more than {TOP_P:.0%}.
        - else: Add up from the most likely token until the sum reaches the line.
        = Top-p is also called nucleus sampling.""",
        before=lambda: _draw(L, engine, "topp", top_p=TOP_P),
        answer=lambda: explained(engine, "topp").num_left,
    )


def _a_cut_that_adapts(L: Teacher, engine: LessonEngine) -> Script:
    plain = explained(engine, "plain")
    first = plain.candidates[0].probability
    limit = MIN_P * first
    yield L.predict(
        f"""`min_p={MIN_P}` keeps tokens at least {MIN_P} times as likely as **the best one**. The
        shares at temperature 1 are {tokens.shares(plain, limit)}. How many stay? [token]
        - {sum(candidate.probability >= MIN_P for candidate in plain.candidates)}: The limit is not
          {MIN_P:.0%}, but a tenth of the best token's {first:.1%}.
        - else: The limit is {MIN_P} times {first:.1%}, so {limit:.1%}.
        = The limit is {limit:.1%} here. It moves with the best token.""",
        before=lambda: _draw(L, engine, "minp", min_p=MIN_P),
        answer=lambda: explained(engine, "minp").num_left,
    )
    options = {"top_k": TOP_K, "top_p": TOP_P, "min_p": MIN_P}
    for name, value in options.items():
        _draw(L, engine, f"sure-{name}", SURE, **{name: value})
    events = {name: explained(engine, f"sure-{name}") for name in options}
    best, second = events["top_k"].candidates[:2]
    L.choose("minp")
    yield L.predict(
        f"""Another place: after `{SURE}`, `{word(engine, best.token_id)}` has
        {best.probability:.1%}, and the next token, `{word(engine, second.token_id)}`, only
        {second.probability:.1%}. Which cut still lets that one be drawn?
        - top_p={TOP_P}: The first token alone already has more than {TOP_P:.0%}.
        - min_p={MIN_P}: A tenth of the first token's probability is far more than that.
        = Top-k always keeps {TOP_K}. Top-p and min-p adapt: few tokens where the model is sure,
          many where it is not.""",
        before=lambda: L.choose("sure-top_k"),
        answer=lambda: " ".join(
            f"{name}={options[name]}"
            for name in options
            if tokens.stays(events[name], second.token_id)
        ),
        choices=tuple(f"{name}={value}" for name, value in options.items()),
    )


def _the_race(L: Teacher, engine: LessonEngine) -> Script:
    _draw(L, engine, "bob", top_k=TOP_K)
    _draw(L, engine, "ada", temperature=0.0)
    event = explained(engine, "bob")
    drawn = [candidate for candidate in event.candidates if candidate.draw is not None]
    most, least = drawn[0], min(drawn, key=lambda candidate: candidate.draw)
    winner = word(engine, event.token_id)
    yield L.say(
        f"""Now the draw itself. It is a **race**: every token that is left gets a random number,
        its distance. Its probability is its speed, so it arrives at **number / probability**. The
        earliest wins, and each as often as its probability says. `bob`'s draw, `top_k={TOP_K}`:""",
        figure=tokens.race_figure(engine, event),
    )
    yield L.predict(
        f"""Which token wins this race?
        - {word(engine, most.token_id)}: It runs fastest, but its distance is large.
        - {word(engine, least.token_id)}: It has the shortest distance, but it is slow.
        - else: Divide each random number by the token's probability.
        = It arrives at {event.chosen.arrival:.2f}. The panel shows all arrivals.""",
        before=lambda: L.choose("bob"),
        answer=lambda: winner,
        choices=tuple(word(engine, candidate.token_id) for candidate in drawn),
    )
    yield from _the_same_numbers(L, engine, event)


def _the_same_numbers(L: Teacher, engine: LessonEngine, event: ev.TokenExplained) -> Script:
    """event: bob's draw"""
    winner, most = word(engine, event.token_id), event.candidates[0]
    same, other = "the same token", "the other token"
    yield L.predict(
        f"""The same request, the same seed, but `top_k={FEW}`. `{winner}` is still among the {FEW}
        that stay, and it now has a higher probability. Which wins?
        - {same}
        - {other}: Both became likelier by the same factor, so the order stays.
        - either of the two: The same seed gives the same random numbers again.
        = The random number belongs to the token itself. A cut can remove the winner, but never
          decides between those that stay.""",
        before=lambda: _draw(L, engine, "fewer", top_k=FEW),
        answer=lambda: same if explained(engine, "fewer").token_id == event.token_id else other,
    )
    many = _engine(L, "many seeds")
    _many(many, DRAWS, temperature=1.0, top_k=TOP_K)
    wins, name = count(many, most.token_id), word(engine, most.token_id)
    L.check(
        f"{wins} of {DRAWS} other seeds drew `{name}`, whose share is {most.final_probability:.0%}",
        abs(wins / DRAWS - most.final_probability) < 0.1,
    )


def _the_same_in_any_batch(L: Teacher) -> Script:
    alone, crowded = _engine(L, "alone"), _engine(L, "a full batch")
    params = {"temperature": 1.0, "seed": SEED}
    alone.add("bob", TEXT, WISH, **params)
    alone.run()
    for name in ("ada", "cleo", "dan", "eve"):
        crowded.add(name, STORIES[name], WISH, temperature=1.0)
    crowded.step(3)
    crowded.add("bob", TEXT, WISH, **params)
    crowded.add("finn", TEXT, WISH, temperature=1.0, seed=SEED + 1)
    L.show(crowded, focus="slots")
    yield L.predict(
        f"""`bob` got {WISH} tokens alone, at temperature 1 with a seed. Now he sends the same in a
        full batch, later, and his batch-mates draw random numbers in every step, too. How many of
        his tokens differ? [token]
        - {WISH}: That would be so if all took their numbers from one generator, in turn.
        - else: Ask what his random numbers depend on.
        = A random number is a **hash** of four things: seed, sequence, position, token id. None of
          them knows the batch.""",
        before=crowded.run,
        answer=lambda: tokens.num_different(alone, crowded, "bob"),
    )
    finn, bob = map(crowded.output_tokens, ("finn", "bob"))
    L.check("finn, with another seed, got another text", finn != bob)
    tight = _engine(L, "too few blocks", num_blocks=TIGHT, enable_prefix_caching=False)
    tight.add("ada", 8, WISH)
    tight.add("bob", TEXT, WISH, **params)
    L.show(tight, focus="timelines")
    yield L.predict(
        f"""Next, memory is short. bob is preempted in the middle of his answer, and recomputed. He
        has already used some random numbers. How many differ from the answer he got alone? [token]
        - {WISH}: His first tokens were already sent, and a preemption takes no token back.
        - 1: The hash takes the **position** in the text, not the number of draws so far.
        - else: The hash takes the **position** in the text, not the number of draws so far.
        = His next position is the same as before, so he draws what he would have drawn.""",
        before=tight.run,
        answer=lambda: tokens.num_different(alone, tight, "bob"),
    )
    L.check("bob was really preempted", tight.facts.requests["bob"].num_preemptions > 0)


def _samples(L: Teacher) -> Script:
    engine = _engine(L, "three samples each")
    for name in ("cleo", "dan"):
        engine.add(name, TEXT, WISH, n=SAMPLES, temperature=1.0, seed=SEED)
    sequences = [f"{name}.{i}" for i in range(SAMPLES) for name in ("cleo", "dan")]
    yield L.predict(
        f"""`cleo` and `dan` send the same prompt with the same seed. Each asks for {SAMPLES}
        answers (`n={SAMPLES}`). How many different texts are there among these {2 * SAMPLES}?
        [text]
        - 1: The index of the sequence, 0 to 2, is part of the hash, so each draws its own.
        - {2 * SAMPLES}: The hash has no name of a user: the same seed and index draw the same.
        - else: Which of the four things in the hash differ, and between whom?
        = Each user gets three texts, and dan's are cleo's: a seed makes texts repeatable.""",
        before=engine.run,
        answer=lambda: len({tuple(engine.output_tokens(seq_id)) for seq_id in sequences}),
        focus="finished",
    )
    L.choose("cleo")
    L.focus("choice")
    yield L.say("""Why a number for each **token**, and not one for the whole draw? Another batch
        changes the last bits of the logits. One number, looked up in the sums of probabilities,
        would now and then land on a neighbour. In the race each token keeps its own number, so last
        bits almost never change the winner.""")


def _engine(L: Teacher, name: str, **options: object) -> LessonEngine:
    return L.engine(name, **{**OPTIONS, **options})


def _draw(L: Teacher, engine: LessonEngine, name: str, text: str = TEXT, **params: object) -> None:
    """Let a request draw one token, with the lesson's seed and temperature 1, and inspect it."""
    engine.add(name, text, 1, **{"temperature": 1.0, "seed": SEED, **params})
    engine.run()
    L.choose(name)


def _many(engine: LessonEngine, count: int, **params: object) -> None:
    """One token for each of `count` requests, with the seeds 0, 1, 2, ..."""
    for number in range(count):
        engine.add(f"user{number}", TEXT, 1, seed=number, **params)
    engine.run()
