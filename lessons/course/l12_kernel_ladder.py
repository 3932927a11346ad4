"""Lesson 12: what a decode step must read, how fast that can be, and the five kernels that get
there.
"""

from minivllm.events import types as ev
from minivllm.lessons.shown.measured import in_words, measured_rungs
from minivllm.lessons.shown.recorded import (
    NOTICE,
    look_or_recorded,
    recorded,
    triton_is_here,
    xray_next_step,
)
from minivllm.lessons.shown.roofline import H100, operations_per_byte, weights_per_pass
from minivllm.lessons.shown.rungs import SPLITS, Shape
from minivllm.lessons.teacher.script import Script, Teacher, lesson

BF16 = 2
"""Bytes of a number in bfloat16."""
LARGE_MODEL = 8_000_000_000
CONTEXT = 128
LONG_CONTEXT = 16_384


@lesson(
    12, "kernel-ladder", "The kernel ladder and the limit of memory", minutes=11,
    needs=("paged-attention", "batching"), watches_kernels=True,
)  # fmt: skip
def run(L: Teacher) -> Script:
    engine = L.engine(num_blocks=24, block_size=16, max_num_seqs=2)
    config, model = engine.loaded.config, engine.loaded.name
    engine.add("ada", [10 + number % 200 for number in range(40)], max_tokens=12)
    engine.step(2)
    weights = weights_per_pass(config)
    is_live = triton_is_here()

    if not is_live:
        yield L.say(NOTICE, focus="slots")
    yield L.say(
        f"`ada` is being answered, one token a step. For that one token the model `{model}`"
        f" multiplies with **every one of its {weights:,} weights**, and each must be brought from"
        " memory to the processor first. Lesson 6 said: that is paid once for all in the batch."
        " Let us see the bill.",
        focus="slots",
    )
    yield L.predict(
        f"On a GPU a weight takes {BF16} bytes (bfloat16). How many bytes of weights does one step"
        " of this model read?",
        answer=lambda: BF16 * weights,
        unit="byte",
        tolerance=0.05,
        why={
            weights: f"That is how many there are. Each takes {BF16} bytes.",
            1: "All of them are needed, for each token.",
        },
        otherwise=f"{weights:,} weights of {BF16} bytes.",
        because=(
            f"A model of {LARGE_MODEL // 10**9} billion weights: {BF16 * LARGE_MODEL // 10**9} GB,"
            " for each step."
        ),
    )
    bound = H100.bytes_per_second / (BF16 * LARGE_MODEL)
    yield L.predict(
        f"An {H100.name} moves {H100.bytes_per_second / 1e12:.2f} terabytes a second. A model of"
        f" {LARGE_MODEL // 10**9} billion weights answers **one** person: at most how many tokens a"
        " second?",
        answer=lambda: round(bound),
        unit="token",
        tolerance=0.1,
        why={round(bound * BF16): f"A weight takes {BF16} bytes."},
        otherwise=(
            f"{H100.bytes_per_second / 1e12:.2f} TB over {BF16 * LARGE_MODEL / 1e12:.3f} TB a"
            " token."
        ),
        because=(
            "No kernel, however clever, is faster than this. It is a limit of memory, not of"
            " arithmetic."
        ),
    )
    balance = H100.operations_per_byte
    yield L.say(
        f"How idle is its arithmetic meanwhile? It could do {H100.operations_per_second / 1e12:.0f}"
        f" trillion operations a second, so **{balance:.0f} for each byte that it moves**. With a"
        f" weight of {BF16} bytes one token does 2 operations, a multiplication and an addition:"
        f" {operations_per_byte(1, BF16):.0f} for each byte."
    )
    yield L.predict(
        "Every further sequence in the batch uses the weights that are there already: 2 more"
        " operations, no more bytes. How many sequences until arithmetic, and not memory, is the"
        " limit?",
        answer=lambda: round(balance * BF16 / 2),
        unit="sequence",
        tolerance=0.1,
        why={
            2: f"That is 2 operations a byte, of {balance:.0f}.",
            1: "With one, almost all of its arithmetic is idle.",
        },
        otherwise=f"One does 1 operation a byte; {balance:.0f} are possible.",
        because=(
            "Up to there a larger batch is nearly free. That is why continuous batching pays, and"
            " why memory for more sequences is worth so much."
        ),
    )
    L.check(
        f"one sequence uses {operations_per_byte(1, BF16) / balance:.1%} of the arithmetic",
        operations_per_byte(1, BF16) < balance / 100,
    )
    per_token = engine.bytes_per_token * BF16 // engine.loaded.dtype.itemsize
    equal = BF16 * weights // per_token
    yield L.predict(
        f"But not all is shared: each sequence reads its own keys and values, {per_token:,} bytes a"
        " token here (bfloat16). At how many tokens of context is that as much as all the"
        " weights?",
        answer=lambda: equal,
        focus="blockmap",
        unit="token",
        tolerance=0.1,
        why={weights // per_token: f"The weights take {BF16} bytes each."},
        otherwise=f"{BF16 * weights:,} bytes of weights over {per_token:,} bytes a token.",
        because=(
            "All sequences of a batch together: 64 of them get there with a 64th of that each. Then"
            " attention is what counts, and its kernel must not read twice."
        ),
    )
    where = "They run here" if is_live else "They ran elsewhere, and were recorded,"
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    looks: dict = {}
    yield L.say(
        f"So to the kernels, a ladder of five versions, each with one thing mended. {where} in"
        f" Triton's interpreter, in this model's shape: {heads} query heads, {kv_heads} key heads."
        " A **program** is a piece of a kernel that runs by itself on one processor of the GPU.",
        focus="slots",
    )
    yield L.predict(
        f"Rung 1, `naive`: a program for each query head, {heads} of them; it walks through the"
        f" {CONTEXT} tokens and loads the key of its head at each. How many keys do all of them"
        " load?",
        before=lambda: looks.update(
            look_or_recorded(Shape(heads, kv_heads, config.head_size, CONTEXT))
        ),
        answer=lambda: looks["naive"].keys_read,
        unit="key",
        why={
            CONTEXT: f"That is one program. There are {heads}.",
            kv_heads * CONTEXT: (
                "So many there are. But query heads share key heads, and here each loads for"
                " itself."
            ),
        },
        because=(
            f"Each key was loaded {heads / kv_heads:.3g} times: the group of query heads that"
            " share it."
        ),
    )
    L.check("the result is right all the same", looks["naive"].right)
    yield L.predict(
        "Rung 2, `grouped`: a program for each **key** head, which answers all query heads of its"
        " group at once. How many keys are loaded now?",
        answer=lambda: looks["grouped"].keys_read,
        unit="key",
        why={
            heads * CONTEXT: "That was rung 1.",
            CONTEXT: f"That is one key head. There are {kv_heads}.",
        },
        because=(
            "Each key once: it cannot be less. And several queries against one tile make a matrix"
            " product, which GPUs are built for."
        ),
    )
    L.check("every key is loaded exactly once", looks["grouped"].keys_read == kv_heads * CONTEXT)
    yield L.predict(
        f"Now ada's own next decode, by this rung, with the x-ray on. An {H100.name} has"
        f" {H100.num_processors} processors. ada is alone: how many of them have something to do in"
        " a layer's attention?",
        before=lambda: xray_next_step(L, engine),
        answer=lambda: len(engine.events_of(ev.KernelTraced)[-1].programs),
        why={
            H100.num_processors: "There are not that many programs.",
            heads: "That was rung 1: more programs, and each key loaded several times.",
            1: "One for each key head.",
        },
        because="The rest waits, however long the text is.",
    )
    splits = _num_splits(kv_heads) if is_live else recorded().num_splits
    yield L.predict(
        "Rung 3, `split`: the context is cut into parts, a program for each, and a second kernel"
        f" puts the parts together. For {LONG_CONTEXT:,} tokens this engine takes {splits} parts."
        " How many programs read keys?",
        answer=lambda: splits * kv_heads,
        unit="program",
        why={splits: f"For each of the {kv_heads} key heads.", kv_heads: "That was rung 2."},
        because=(
            "A softmax is a weighted mean, so parts can be worked out apart, if each remembers its"
            " largest score and its sum (lesson 5)."
        ),
    )
    L.check(
        f"with {SPLITS} parts, {looks['split'].programs} programs loaded {looks['split'].keys_read}"
        " keys: no more than before",
        looks["split"].keys_read == looks["grouped"].keys_read,
    )
    L.check("and the parts together are right", looks["split"].right)
    yield L.say(
        "What is left is Python. A step launches a few kernels in each layer, and on a small model"
        " Python takes longer to launch one than the GPU to run it. A **CUDA graph** records all"
        " launches and replays them without Python. But a recording repeats itself: the same grid,"
        " the same addresses."
    )
    yield L.predict(
        "Rung 4, `static`: a graph made for 4 sequences serves ada alone; three rows are padding,"
        " with a length of 0. How many keys are loaded?",
        answer=lambda: looks["static"].keys_read,
        unit="key",
        why={
            4 * kv_heads * CONTEXT: (
                "A row of length 0 is not read at all: its programs end at once."
            ),
            heads * CONTEXT: "That was rung 1.",
        },
        because="The padding costs programs that do nothing, and no bytes.",
    )
    L.check(
        f"{looks['static'].idle_programs} programs found nothing to do",
        looks["static"].idle_programs > 0,
    )
    yield L.predict(
        "A step often has both: one prompt's chunk, and everybody else's decodes. So far a kernel"
        " for chunks runs, then one for decodes. Version 5, `unified`, takes a decode as a chunk"
        " of one token, and every program finds its sequence by itself. ada alone again,"
        f" {kv_heads} key heads: how many programs read keys?",
        answer=lambda: looks["unified"].programs,
        unit="program",
        why={heads: "A program takes all query heads of its key head at once, as since version 2."},
        because=(
            "For a decode it does what version 2 does. What it gains is in mixed steps: chunks and"
            " decodes share the GPU instead of taking turns."
        ),
    )
    L.check("it loads every key once, too", looks["unified"].keys_read == kv_heads * CONTEXT)
    L.check("all five versions gave the same attention", all(seen.right for seen in looks.values()))
    yield L.say(
        "The rule: **bytes over bandwidth** is the time of a decode; look what must be read, and"
        " read it once. So fewer bytes make it faster: fewer key heads, weights in 8 or 4 bits; or"
        " more tokens for the same bytes: a larger batch, or several guessed tokens checked in one"
        " pass (speculative decoding)."
    )
    measured = measured_rungs()
    if measured is not None:
        yield L.say(in_words(measured))
    yield L.say(
        "In the code: `kernels/attention/decode_naive.py`, `decode_grouped.py`, `decode_split.py`,"
        " `decode_static.py`, `unified.py`. On a GPU `minivllm bench kernels` tells what share of"
        " the device's own copying speed each rung reaches. In vLLM:"
        " `vllm/v1/attention/ops/triton_unified_attention.py`, and FlashAttention."
    )


def _num_splits(kv_heads: int) -> int:
    from minivllm.kernels.attention.decode_split import choose_num_splits

    return choose_num_splits(1, kv_heads, LONG_CONTEXT)
