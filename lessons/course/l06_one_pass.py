"""Lesson 6: sequences of different length share one pass as a flat list of tokens, not padded."""

from collections.abc import Callable
from itertools import accumulate

from minivllm.events import types as ev
from minivllm.lessons.shown.drawings import flat_ranges
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson
from minivllm.tui.widgets.steps.flat_batch import InputToken, input_tokens

SIZE = 4
PROMPTS = {"ada": 6, "bob": 5, "cleo": 11}
HEAD_START = 3
"""Steps that ada has had when the other two arrive."""
WISHES = {"ada": 12, "bob": 3, "cleo": 6}
WATCHED = 3
"""A token of cleo's prompt, counted from 0."""


@lesson(
    6, "one-pass", "One pass for many lengths: the flattened batch", minutes=9, pages=24,
    needs=("batching",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = _engine(L, "")
    _ask(engine, "ada")
    engine.step(HEAD_START)
    _ask(engine, "bob")
    _ask(engine, "cleo")
    yield from _padded_or_flat(L, engine)
    yield from _what_each_row_needs(L, engine)
    yield from _attention_stays_apart(L, engine)
    yield from _what_padding_would_cost(L, engine)
    yield L.say("""In the code: `InputBatch.prepare` in `minivllm/runtime/input_batch.py` makes the
        four lists, and the layers in `minivllm/runtime/model/decoder.py` take them as `[num_tokens,
        hidden_size]`. In vLLM: `_prepare_inputs` in `vllm/v1/worker/gpu_model_runner.py`. Lesson 17
        shows the kernel that attends.""")
    yield L.say("""On the Scheduler screen (key 3), the panel Flat batch shows these rows for any
        run. The number of rows is the work of a step: one for a sequence that writes, a whole
        prompt for a new one. Who may add how many rows to a step? That is the next lesson.""")


def _padded_or_flat(L: Teacher, engine: LessonEngine) -> Script:
    lengths = [1, PROMPTS["bob"], PROMPTS["cleo"]]
    longest, total = max(lengths), sum(lengths)
    L.focus("slots")
    yield L.say(f"""`ada` has got her first tokens. The next step must process one token of hers,
        and the new prompts of `bob`, {PROMPTS["bob"]} tokens, and `cleo`, {PROMPTS["cleo"]}. A
        device is fast with large rectangles of numbers. How do three sequences of different length
        become one rectangle?""")
    yield L.predict(
        f"""The old way is **padding**: one line for each sequence, all as long as the longest, with
        the empty places filled by tokens that mean nothing. How many of the places of this step
        would be padding? [place]
        - {len(lengths) * longest}: These are all places; {total} of them hold real tokens.
        - {total}: These are the real tokens.
        - {longest}: That is the length of one line.
        - else: {len(lengths)} lines of {longest} places, and {total} real tokens.
        = The device multiplies each of them with all weights, and the results are thrown away.""",
        before=engine.step,
        answer=lambda: _padded(_lengths(engine)) - sum(_lengths(engine)),
    )
    L.check(
        f"the engine ran {total} tokens for three sequences in this step",
        sorted(_lengths(engine)) == sorted(lengths),
    )
    yield L.say(f"""This engine pads nothing. It writes the tokens of all sequences **one after
        another** into one list: the **flattened** (or ragged) **batch**, a rectangle of {total}
        rows and as many columns as the model is wide.""")
    yield L.predict(
        f"""The rows are numbered from 0: ada's token, then bob's prompt, then cleo's. In which row
        does cleo's prompt begin?
        - 0: That is her first token's position in her own text, not its row in the list.
        - {1 + total - PROMPTS["cleo"]}: Rows are counted from 0.
        - {longest}: With padding, a line begins every 11 places. Here nothing is padded.
        - else: Add up the tokens of the sequences before hers.""",
        answer=lambda: _rows(engine, "cleo")[0].row,
        because=lambda: (
            "The boundaries are the running sums of the lengths,"
            f" {[0, *accumulate(_lengths(engine))]}: `query_start_loc`."
        ),
    )


def _what_each_row_needs(L: Teacher, engine: LessonEngine) -> Script:
    yield L.say("""Most layers treat each row alone: they multiply it with the same weights,
        whichever sequence it belongs to. So they need no boundaries at all. But a row has lost its
        place in its text, and each sequence starts anew at 0. So a second list goes with the first:
        the **positions**.""")
    yield L.predict(
        f"""ada's prompt had {PROMPTS["ada"]} tokens (positions 0 to {PROMPTS["ada"] - 1}). Before
        this step, the model had written {HEAD_START} more. The newest of them is her row in this
        step. What is its position?
        - 0: That is its row in the list. Its position is its place in her text.
        - {PROMPTS["ada"] + HEAD_START}: Positions are counted from 0.
        - {PROMPTS["ada"]}: That was the position of the first token that she got.
        - else: Count her tokens, from 0, up to the newest one.
        = A row's position is independent of the other sequences in the list.""",
        answer=lambda: _rows(engine, "ada")[0].position,
    )
    table = engine.table("bob")
    last = _rows(engine, "bob")[-1]
    yield L.predict(
        f"""The third list says where the keys and values of each row are written: the **slot
        mapping** of lesson 4. bob's last row has position {last.position}, his block table is
        {table}, and blocks have {SIZE} tokens. Which slot?
        - {last.row}: That is the row. The cache is not in the order of the rows.
        - {table[0] * SIZE + last.position}: That would be in his first block, which is full.
        - {table[1]}: That is the block. Each block has {SIZE} slots.
        - else: Block × block size + remainder; the table gives the block.
        = Position {last.position} is entry {last.position // SIZE} of his table:
          {table[last.position // SIZE]} × {SIZE} + {last.position % SIZE}.""",
        answer=lambda: last.slot,
    )
    slots = [row.slot for row in _all_rows(engine)]
    L.check("no two rows are written to the same slot", len(set(slots)) == len(slots))
    yield L.say(
        """The panel **Flat batch** has the three lists side by side, for the step that has just
        run: the row, the letter of its sequence, its position, its token, and its slot. The model
        gets these, the boundaries and the block tables. It knows no requests and no users.""",
        focus="flat_batch",
        figure=flat_ranges(_all_rows(engine)),
        diagram="flattened-batch",
    )


def _attention_stays_apart(L: Teacher, engine: LessonEngine) -> Script:
    watched = _rows(engine, "cleo")[WATCHED]
    yield L.say("""One layer must not treat rows alone: **attention**, in which a token looks at
        earlier tokens. It uses the boundaries and the block tables, and goes through the sequences
        one by one: the rows of each sequence, and the keys and values of its own blocks.""")
    yield L.predict(
        f"""Row {watched.row} is cleo's, at position {watched.position}. How many tokens does it
        attend to, itself included? [token]
        - {watched.row + 1}: That counts rows of ada and bob. They are other users' texts.
        - {PROMPTS["cleo"]}: The later tokens of her prompt are in this pass, but still hidden.
        - {watched.position}: It also attends to itself.
        - else: Only the tokens of its own text, up to itself.
        = The list is shared, and the attention is not: no user's text reaches another's.""",
        answer=lambda: watched.position + 1,
    )
    step = engine.fold.step
    yield L.predict(
        f"""{_num_rows(engine)} rows went through the model, and each could predict a next token.
        How many tokens did the engine sample in this step? [token]
        - {_num_rows(engine)}: Inside a prompt the next token is known already.
        - 1: Each sequence gets its own next token.
        - else: One for each sequence whose last known token was in the step.
        = Only the last row of each sequence predicts something new. The fourth list,
          `sampling_rows`, names these rows, so that scores are computed for no others.""",
        answer=lambda: [event.step for event in engine.events_of(ev.TokenSampled)].count(step),
    )
    contexts = [engine.num_tokens(name) for name in WISHES]
    yield L.predict(
        f"""In the next step all three write. Their texts have {", ".join(map(str, contexts[:-1]))}
        and {contexts[-1]} tokens. How many rows does that step have? [row]
        - {sum(contexts)}: The older tokens are in the KV cache. They are not computed again.
        - {len(contexts) * max(contexts)}: That would be padded, and computed without a cache.
        - 1: Each sequence has a token of its own.
        = One row each. Their contexts still differ in length, but that is the business of
          attention, which reads as many keys as each sequence has.""",
        before=engine.step,
        answer=lambda: _num_rows(engine),
    )


def _what_padding_would_cost(L: Teacher, engine: LessonEngine) -> Script:
    engine.run()
    alone = {}
    for name in WISHES:
        alone[name] = _engine(L, f"only {name}")
        _ask(alone[name], name)
        alone[name].run()
    L.show(engine)
    L.check(
        "each of the three got the same tokens as alone",
        all(engine.output_tokens(name) == lone.output_tokens(name) for name, lone in alone.items()),
    )
    steps = _per_step(engine, lambda event: event.num_tokens)
    real, padded = sum(map(sum, steps)), sum(map(_padded, steps))
    contexts = _per_step(engine, lambda event: event.num_computed_tokens + event.num_tokens)
    keys, padded_keys = sum(map(sum, contexts)), sum(map(_padded, contexts))
    yield L.predict(
        f"""Over the whole run, the engine computed {real} rows. With padding to the longest
        sequence of each step, how many rows would it have been? [row]
        - {real}: Then no step would mix lengths. One of them did.
        - {len(WISHES) * real}: Padding costs that much only if one sequence is very long.
        - else: Only one step mixed different lengths: add its padding to the rows.
        = Attention would read more as well: {padded_keys} keys instead of {keys}. One long sequence
          makes every other one as long.""",
        answer=lambda: padded,
        focus="step_history",
        tolerance=0.1,
    )
    L.check(f"padding would have added {padded / real - 1:.0%} to the rows", padded > real)


def _engine(L: Teacher, name: str) -> LessonEngine:
    return L.engine(
        name, num_blocks=24, block_size=SIZE, max_num_seqs=3, max_num_batched_tokens=64,
        enable_prefix_caching=False,
    )  # fmt: skip


def _ask(engine: LessonEngine, name: str) -> None:
    engine.add(name, PROMPTS[name], max_tokens=WISHES[name])


def _all_rows(engine: LessonEngine) -> list[InputToken]:
    """The flat batch of the last step."""
    return list(input_tokens(engine, 0, _num_rows(engine)))


def _rows(engine: LessonEngine, name: str) -> list[InputToken]:
    return [row for row in _all_rows(engine) if row.seq_id == f"{name}.0"]


def _num_rows(engine: LessonEngine) -> int:
    return sum(_lengths(engine))


def _lengths(engine: LessonEngine) -> list[int]:
    return [item.num_tokens for item in engine.fold.scheduled]


def _padded(lengths: list[int]) -> int:
    """Places of a rectangle with a line for each sequence, as long as the longest."""
    return len(lengths) * max(lengths)


def _per_step(engine: LessonEngine, number: Callable[[ev.StepScheduled], int]) -> list[list[int]]:
    """Step by step, this number of each sequence."""
    steps: dict[int, list[int]] = {}
    for event in engine.events_of(ev.StepScheduled):
        steps.setdefault(event.step, []).append(number(event))
    return list(steps.values())
