"""Lesson 18: what a decode step must read, how fast that can be, and five attention kernels."""

from minivllm import kernels
from minivllm.events import types as ev
from minivllm.lessons.shown.kernel_reads import SPLITS, Look, Shape
from minivllm.lessons.shown.recorded import (
    NOTICE,
    look_or_recorded,
    recorded,
    triton_is_here,
    xray_next_step,
)
from minivllm.lessons.shown.roofline import (
    H100,
    OPERATIONS_PER_BYTE,
    Point,
    in_words,
    measured_kernels,
    operations_per_byte,
    points,
    roofline,
    weights_per_pass,
)
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Say, Script, Teacher, lesson

BF16 = 2
"""Bytes of a number in bfloat16."""
LARGE_MODEL = 8_000_000_000
CONTEXT = 128
LONG_CONTEXT = 16_384
BATCH = 512


@lesson(
    18, "kernel-ladder", "Five attention kernels, and why memory is the limit",
    minutes=11, pages=33, needs=("paged-attention", "batching"), track="kernels",
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine("ada alone", num_blocks=24, block_size=16, max_num_seqs=2)
    engine.add("ada", engine.tokens(DIARY, 40), max_tokens=12)
    engine.step(2)
    is_live = triton_is_here()

    if not is_live:
        yield L.say(NOTICE, focus="slots")
    yield from _bytes_of_a_step(L, engine)
    looks: dict[str, Look] = {}
    yield from _each_key_once(L, engine, looks, is_live)
    yield from _more_programs(L, engine, looks, is_live)
    yield from _one_launch(L, engine, looks)
    yield L.say("""The rule: the time of a decode is **bytes over bandwidth**, so read each byte
        only once. Fewer bytes help: fewer key heads, or weights in 8 or 4 bits (lesson 13). More
        tokens for the same bytes help too: a larger batch, or several guessed tokens checked in one
        pass (speculative decoding, lesson 14).""")
    yield L.say(in_words())
    yield L.say("""In the code: `kernels/attention/decode_naive.py`, `decode_grouped.py`,
        `decode_split.py`, `decode_static.py`, `unified.py`. On a GPU, `minivllm bench kernels`
        prints what share of the device's own copying speed each version reaches. In vLLM:
        `vllm/v1/attention/ops/triton_unified_attention.py`, and FlashAttention.""")


def _bytes_of_a_step(L: Teacher, engine: LessonEngine) -> Script:
    weights = weights_per_pass(engine.loaded.config)
    L.focus("slots")
    yield L.say(f"""`ada` is being answered, one token per step. For that one token the model
        `{engine.loaded.name}` multiplies with **every one of its {weights:,} weights**, and each
        must be read from memory first. Lesson 5 said that a batch pays this only once for all its
        sequences. Now we compute the cost.""")
    yield L.predict(
        f"""On a GPU a weight takes {BF16} bytes (bfloat16). How many bytes of weights does one step
        of this model read? [byte]
        - {weights}: That is the number of weights. Each takes {BF16} bytes.
        - 1: Every token needs all of them.
        - else: {weights:,} weights of {BF16} bytes.
        = For a model of {LARGE_MODEL // 10**9} billion weights, it is {BF16 * LARGE_MODEL // 10**9}
          GB in each step.""",
        answer=lambda: BF16 * weights,
        tolerance=0.05,
    )
    bound = H100.bytes_per_second / (BF16 * LARGE_MODEL)
    yield L.predict(
        f"""An {H100.name} moves {H100.bytes_per_second / 1e12:.2f} terabytes per second to and from
        its memory. A model of {LARGE_MODEL // 10**9} billion weights answers **one** user, one
        token per step. How many tokens per second are possible at most? [token]
        - {round(bound * BF16)}: A weight takes {BF16} bytes.
        - else: {H100.bytes_per_second / 1e12:.2f} TB over {BF16 * LARGE_MODEL / 1e12:.3f} TB per
          token.
        = No kernel can beat this; only fewer bytes, or more tokens per step, can. Decoding is
          **memory-bandwidth-bound**: the limit is the speed of memory, its **bandwidth**. How much
          fits, its **capacity**, was the subject of the lessons on the KV cache.""",
        answer=lambda: round(bound),
        tolerance=0.1,
    )
    yield from _larger_batches(L, engine)


def _larger_batches(L: Teacher, engine: LessonEngine) -> Script:
    weights, balance = weights_per_pass(engine.loaded.config), H100.operations_per_byte
    yield L.say(f"""How idle is its arithmetic meanwhile? It could do
        {H100.operations_per_second / 1e12:.0f} trillion operations per second: **{balance:.0f} for
        each byte that it moves**. With a weight of {BF16} bytes, one token does 2 operations, a
        multiplication and an addition. So its **arithmetic intensity** is
        {operations_per_byte(1, BF16):.0f} operation per byte.""")
    yield L.predict(
        f"""Every further sequence in the batch uses weights that have already been read: 2 more
        operations, no more bytes. From how many sequences on is arithmetic the limit, and not
        memory? [sequence]
        - 2: That would be 2 operations per byte, of {balance:.0f}.
        - 1: With one, almost all of its arithmetic is idle.
        - else: One sequence does 1 operation per byte; {balance:.0f} are possible.
        = Until then a larger batch is nearly free. That is why memory for more sequences is worth
          so much. Beyond it a step is **compute-bound**, as a long prefill is.""",
        answer=lambda: round(balance * BF16 / 2),
        tolerance=0.1,
    )
    yield _roofline(L, engine)
    yield L.predict(
        f"""And a still larger batch? Take {2 * BATCH:,} decodes in place of {BATCH}, and count only
        the work with the weights. How many times as long does a step take? [time]
        - 1: A larger batch is nearly free only on the slope. Here arithmetic is the limit, and
          there is twice as much of it.
        - else: Both points are on the flat part, where arithmetic is the limit.
        = From the corner of the roofline on, more sequences in a batch only wait longer.""",
        answer=lambda: _seconds(2 * BATCH, weights) / _seconds(BATCH, weights),
        tolerance=0.05,
    )
    L.check(
        "from 64 to 128 decodes, that part of a step takes no longer",
        _seconds(128, weights) == _seconds(64, weights),
    )
    L.check(
        f"one sequence uses {operations_per_byte(1, BF16) / balance:.1%} of the arithmetic",
        operations_per_byte(1, BF16) < balance / 100,
    )
    per_token = engine.bytes_per_token * BF16 // engine.loaded.dtype.itemsize
    equal = BF16 * weights // per_token
    yield L.predict(
        f"""But sequences do not share everything: each reads its own keys and values, {per_token:,}
        bytes per token here (bfloat16). At how many tokens of context is that as much as all the
        weights? [token]
        - {weights // per_token}: The weights take {BF16} bytes each.
        - else: {BF16 * weights:,} bytes of weights over {per_token:,} bytes per token.
        = That counts all sequences of a batch together: 64 of them reach it with a 64th each. From
          then on attention dominates, so its kernel must not read twice.""",
        answer=lambda: equal,
        focus="blockmap",
        tolerance=0.1,
    )


def _seconds(num_sequences: int, weights: int) -> float:
    """The shortest time for the work of one decode step with the weights, on the data sheet."""
    moving = BF16 * weights / H100.bytes_per_second
    return max(moving, 2 * num_sequences * weights / H100.operations_per_second)


def _roofline(L: Teacher, engine: LessonEngine) -> Say:
    """This lesson's own two steps, on the bound that the data sheet allows."""
    prompt, decode = (event.num_tokens for event in engine.events_of(ev.StepScheduled))
    intensities = {
        "d": operations_per_byte(decode, BF16),
        "p": operations_per_byte(prompt, BF16),
        "b": operations_per_byte(BATCH, BF16),
    }
    return L.say(
        f"""The **roofline** of an {H100.name}, from its data sheet. Slope, memory-bandwidth-bound:
        `d`, ada's decode, and `p`, the **prefill** of her {prompt} tokens. Flat, compute-bound:
        `b`, {BATCH} decodes in a batch, or as long a prefill.""",
        figure=roofline(
            H100,
            [
                Point(sign, at, min(at * H100.bytes_per_second, H100.operations_per_second))
                for sign, at in intensities.items()
            ],
        ),
        diagram="roofline",
    )


def _each_key_once(
    L: Teacher, engine: LessonEngine, looks: dict[str, Look], is_live: bool
) -> Script:
    """Versions 1 and 2. Fills `looks` with what each kernel version read."""
    config = engine.loaded.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    where = "They run here in" if is_live else "They were recorded on another machine, in"
    L.focus("slots")
    yield L.say(f"""Now five kernels. Each fixes one weakness of the one before. {where} Triton's
        interpreter, in this model's shape: {heads} query heads, {kv_heads} key heads. A **program**
        is a piece of a kernel that runs on its own, on one processor of the GPU.""")
    yield L.predict(
        f"""Version 1, `naive`: one program per query head, {heads} in all. It goes through the
        {CONTEXT} tokens and loads the key of its head for each. How many keys do all programs load
        together? [key]
        - {CONTEXT}: That is one program. There are {heads}.
        - {kv_heads * CONTEXT}: That many keys exist. But query heads share key heads, and here each
          program loads for itself.
        = Each key was loaded {heads / kv_heads:.3g} times, once for each query head that shares
          it.""",
        before=lambda: looks.update(
            look_or_recorded(Shape(heads, kv_heads, config.head_size, CONTEXT))
        ),
        answer=lambda: looks["naive"].keys_read,
    )
    L.check("the result is correct all the same", looks["naive"].right)
    yield L.predict(
        f"""Version 2, `grouped`: one program per **key** head, which serves all query heads of its
        group at once. How many keys are loaded now? [key]
        - {heads * CONTEXT}: That was version 1.
        - {CONTEXT}: That is one key head. There are {kv_heads}.
        = Each key once, which is the minimum. And several queries times one tile of keys make a
          matrix product, which GPUs are built for.""",
        answer=lambda: looks["grouped"].keys_read,
    )
    L.check("every key is loaded exactly once", looks["grouped"].keys_read == kv_heads * CONTEXT)


def _more_programs(
    L: Teacher, engine: LessonEngine, looks: dict[str, Look], is_live: bool
) -> Script:
    """Version 3."""
    config = engine.loaded.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    yield L.predict(
        f"""Now ada's own next decode with version 2, and with the x-ray on. An {H100.name} has
        {H100.num_processors} processors. ada is alone: how many of them have work in the attention
        of one layer?
        - {H100.num_processors}: There are not that many programs.
        - {heads}: That was version 1: more programs, but each key was loaded several times.
        - 1: There is one program for each key head.
        = The other processors are idle, however long the text is.""",
        before=lambda: xray_next_step(L, engine),
        answer=lambda: len(engine.events_of(ev.KernelTraced)[-1].programs),
    )
    splits = (
        kernels.choose_num_splits(1, kv_heads, LONG_CONTEXT) if is_live else recorded().num_splits
    )
    yield L.predict(
        f"""Version 3, `split`: the context is cut into parts, each with its own program, and a
        second kernel merges the results. For {LONG_CONTEXT:,} tokens this engine makes {splits}
        parts. How many programs read keys? [program]
        - {splits}: That is for one of the {kv_heads} key heads.
        - {kv_heads}: That was version 2.
        = A softmax is a weighted mean, so parts can be computed separately, if each keeps its
          largest score and its sum (lesson 17).""",
        answer=lambda: splits * kv_heads,
    )
    L.check(
        f"with {SPLITS} parts, {looks['split'].programs} programs loaded"
        f" {looks['split'].keys_read} keys: no more than before",
        looks["split"].keys_read == looks["grouped"].keys_read,
    )
    L.check("the merged result is correct", looks["split"].right)
    yield L.say(
        """A part returns three things: its largest score, its sum of weights and its weighted mean
        of values. Its weights are relative to its own largest score. So the merge first scales each
        sum to the largest score of all, and then takes the mean of the means, **weighted by these
        sums**.""",
        figure=(
            "[ part 0 ]  max 3, sum 2, mean m0",
            "[ part 1 ]  max 5, sum 4, mean m1",
            "scaled to 5: 2·e^(3-5) = 0.27, and 4",
            "mean: (0.27·m0 + 4·m1) / (0.27 + 4)",
        ),
        diagram="split-and-merge",
    )
    context = measured_kernels()["ladders"][-1]["context"]
    yield L.say(
        f"""Measured on an {H100.name}, one sequence of {context:,} tokens: `1` is `naive`, `2`
        `grouped`, `3` `split`. Two query heads share a key head: {OPERATIONS_PER_BYTE:.0f}
        operations per byte. A better kernel only comes closer to the roof.""",
        figure=roofline(H100, points()),
    )


def _one_launch(L: Teacher, engine: LessonEngine, looks: dict[str, Look]) -> Script:
    """Versions 4 and 5."""
    config = engine.loaded.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    yield L.say("""What is left is Python's time to **launch** kernels: to tell the GPU to start
        one, with so many programs (its **grid**). With a small model, that takes longer than
        running it. A **CUDA graph** records all launches and replays them without Python, but
        always with the same grid and the same addresses.""")
    yield L.predict(
        f"""Version 4, `static`: a graph made for 4 sequences serves ada alone, with {CONTEXT}
        tokens as before; the other three rows are padding, with length 0. How many keys are loaded?
        [key]
        - {4 * kv_heads * CONTEXT}: A row of length 0 is not read at all: its programs end at once.
        - {heads * CONTEXT}: That was version 1.
        - {kv_heads * engine.num_tokens("ada")}: Here she has {CONTEXT} tokens, as before.
        = The padding costs programs that do nothing, but no bytes.""",
        answer=lambda: looks["static"].keys_read,
    )
    L.check(
        f"{looks['static'].idle_programs} programs had nothing to do",
        looks["static"].idle_programs > 0,
    )
    yield L.predict(
        f"""A step often has both a chunk of a prompt and decodes. So far that takes two kernels,
        one after the other. Version 5, `unified`, treats a decode as a chunk of one token, and
        every program finds its own sequence. ada alone again, {kv_heads} key heads, and {CONTEXT}
        tokens, too few to be cut: how many programs read keys? [program]
        - {heads}: A program serves all query heads of its key head at once, as since version 2.
        = For a short decode it does what version 2 does, for a long one what version 3 does. It
          gains in mixed steps: chunks and decodes share the GPU instead of taking turns.""",
        answer=lambda: looks["unified"].programs,
    )
    L.check("it loads every key once, too", looks["unified"].keys_read == kv_heads * CONTEXT)
    L.check("all five versions gave the same attention", all(seen.right for seen in looks.values()))
