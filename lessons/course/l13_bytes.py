"""Lesson 13: the same weights in fewer bytes, and twice the blocks in the same memory."""

from typing import Any

from minivllm import lessons
from minivllm.events import types as ev
from minivllm.lessons.shown.drawings import bits_of_weight, block_of_weights
from minivllm.lessons.shown.quantize import LARGEST_QUANT, dequantize_block, quantize_block
from minivllm.lessons.shown.roofline import H100, operations_per_byte, weights_per_pass
from minivllm.lessons.shown.tokens import num_different
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import STORIES
from minivllm.lessons.teacher.script import Script, Teacher, lesson

FLOAT32, BF16 = 4, 2
"""Bytes of a number."""
PEOPLE = ("ada", "bob", "cleo")
PROMPT, LONG_PROMPT = 8, 512
WISH, ANSWER = 16, 12
FEW_BLOCKS, AMPLE = 12, 24
USERS, CONTEXT = 16, 500
INT8 = {"kv_cache_dtype": "int8"}


@lesson(
    13, "bytes", "Bytes are time: weights and keys in fewer bits", minutes=13, pages=36,
    needs=("preemption",),
)  # fmt: skip
def run(L: Teacher) -> Script:
    unpacked = _engine(L, "weights unpacked to float32")
    stored = _engine(L, "weights as stored", linear_backend="auto")
    matrix = lessons.first_matrix(stored.loaded.name)
    L.focus("slots")
    yield L.say("""The time of a decode is **bytes over bandwidth**: every step reads all weights,
        for one sequence as for many, and the arithmetic waits for them (lesson 18 has the kernels).
        This lesson makes the pass shorter: the same weights in **fewer bytes**.""")
    yield from _bytes_over_bandwidth(L, unpacked, stored)
    yield from _exact_inside_the_core(L, unpacked, stored, matrix)
    yield from _a_block(L, matrix, lessons.Q4_1)
    yield from _who_gains(L)
    small, large = _room_for_keys(L)
    yield from _capacity(L, small, large)
    yield from _bandwidth(L, small, large)
    yield from _what_changes(L)
    yield L.say("""In the code: `minivllm/runtime/quantization/formats.py` has all formats,
        `kernels/cpu/linear_formats.h` unpacks them, `kernels/reference_ops.py` has
        `quantize_heads`. In vLLM: `vllm/model_executor/layers/quantization`. The options are
        `quantization` and `kv_cache_dtype` in both.""")
    yield L.say("""Try it: `minivllm bench quality` measures what fewer bits cost in quality. The
        header of the dashboard shows how many bytes a token reads. The next lesson gets several
        tokens out of one pass.""")


def _bytes_over_bandwidth(L: Teacher, unpacked: LessonEngine, stored: LessonEngine) -> Script:
    yield L.predict(
        f"""A laptop reads about 20 GB per second from its memory. A model has one billion weights
        in float32, {FLOAT32} bytes each. How many tokens per second can a single user get, at most?
        [token]
        - 20: That would be one byte for each weight.
        - 10: That would be bfloat16, 2 bytes each.
        - else: {FLOAT32} GB for each token, and 20 GB per second.
        = With 4-bit weights, 5 bits with all that they need, it would be 32.""",
        answer=lambda: round(20e9 / (FLOAT32 * 10**9)),
        tolerance=0.1,
    )
    weights = weights_per_pass(stored.loaded.config)
    num_bytes, of_float32 = (engine.header.bytes_per_token for engine in (stored, unpacked))
    yield L.predict(
        f"""The model `{stored.loaded.name}` has {weights:,} weights, and its file stores them in
        bfloat16, {BF16} bytes each. This engine runs **weights as stored**. How many bytes does one
        decode step of it read? [byte]
        - {FLOAT32 * weights}: That is float32, twice as much.
        - {weights}: Each weight has {BF16} bytes.
        - else: {weights:,} weights of {BF16} bytes.""",
        answer=lambda: num_bytes,
        tolerance=0.05,
        because=(
            f"2 for each weight, and {num_bytes - BF16 * weights:,} for small vectors in float32."
            " Half of float32, so a decode can be twice as fast. (Most engines of these lessons"
            " unpack their weights: their headers show twice as much.)"
            if num_bytes < of_float32
            else "This processor or the model's file allows no other way than to unpack them."
        ),
    )
    L.check(f"unpacked to float32, it reads {of_float32:,} bytes", of_float32 >= num_bytes)


def _exact_inside_the_core(
    L: Teacher, unpacked: LessonEngine, stored: LessonEngine, matrix: Any
) -> Script:
    prompt = "Repeat three times: Olga sees the moon"
    _ask((unpacked, stored), "ada", prompt=prompt, max_tokens=ANSWER, chat=True)
    yield L.say(
        """But the engine computes in float32. Must it not unpack the weights first? Only inside the
        processor, a small piece at a time, after the bytes have been read. A bfloat16 is the upper
        half of a float32, and the lower half is zeros. A real weight:""",
        figure=bits_of_weight(matrix[0, 0].item()),
    )
    L.check("every weight here is exactly a bfloat16", bool((matrix == matrix.bfloat16()).all()))
    yield L.predict(
        f"""ada asks for {ANSWER} tokens. One engine unpacked all weights to float32 when it loaded
        them. The other keeps them as they are, and unpacks inside the processor, in every step. How
        many of the tokens differ? [token]
        - {ANSWER}: Both engines multiply the same float32 numbers.
        - else: Both engines multiply the same float32 numbers.
        = The rounding happened once, when the file was made: what few bits lose was lost there.
          Reading the file never rounds again, in any format.""",
        before=lambda: [engine.run() for engine in (unpacked, stored)],
        answer=lambda: num_different(unpacked, stored, "ada"),
    )


def _a_block(L: Teacher, matrix: Any, q4_1: Any) -> Script:
    """Q4_1, with real weights."""
    weights = matrix[0, : q4_1.block_size].tolist()
    block = quantize_block(weights)
    mb = weights_per_pass(L.shown.loaded.config) * q4_1.block_bytes / q4_1.block_size / 1e6
    step, whole = block.scale, (matrix.max() - matrix.min()).item() / LARGEST_QUANT
    yield L.say(
        f"""Now 4 bits, which count from 0 to 15. So {q4_1.block_size} neighbours (a block, but not
        one of the cache) share a **scale**, the distance between two values, and a minimum. Each
        weight has a **quant**, its number of 4 bits, and is read as `scale * quant + minimum`:""",
        figure=block_of_weights(weights, block),
    )
    yield L.predict(
        f"""This format is called `Q4_1`. A block of {q4_1.block_size} weights also has its scale
        and its minimum, as float16. How many bytes has a block in all? [byte]
        - 16: That is the quants alone. Scale and minimum take 2 bytes each.
        - 18: There are two float16: the scale and the minimum.
        - 32: Two quants share a byte.
        = {8 * q4_1.block_bytes // q4_1.block_size} bits for a weight,
          {32 * q4_1.block_size / (8 * q4_1.block_bytes):.3g} times fewer than float32. Per step,
          this model would read {mb:.3g} MB.""",
        answer=lambda: q4_1.block_bytes,
    )
    yield L.predict(
        f"""The weights of this block reach from {block.minimum:.4f} to {max(weights):.4f}, and the
        scale is {step:.4f}. Each weight gets the nearest value. How far off can one be, at most?
        - {round(step, 4)}: Of two values, the nearer one is at most half of their distance away.
        - 0: Between two values there is nothing: a weight there must move.
        - else: The worst place is the middle between two values.
        = That is the price of 4 bits, paid once, when the file is made.""",
        answer=lambda: step / 2,
        tolerance=0.1,
    )
    worst = max(map(abs, map(float.__sub__, weights, dequantize_block(block))))
    L.check(f"the worst of the {len(weights)} is {worst:.4f} off", worst <= step * 0.500001)
    yield L.say(
        f"""So a block has {q4_1.block_bytes} bytes: 2 of scale, 2 of minimum, and 16 with two
        quants each. All its weights are read from these, and nothing else is stored.""",
        figure=("[ scale 2 ][ min 2 ][ 0, 1 ][ 2, 3 ] ...",),
        diagram="quantized-block",
    )
    yield L.predict(
        f"""Why a scale for each block? The weights of the whole matrix reach from
        {matrix.min():.3f} to {matrix.max():.3f}. If all shared one scale, how many times larger
        would it be than in this block? [time]
        - 1: One large weight anywhere makes the scale larger for all.
        - else: Each range has {LARGEST_QUANT} distances: compare the ranges.
        = Small blocks round better, but need more bytes for scales. Other formats, such as Q4_0 and
          Q8_0, choose otherwise.""",
        answer=lambda: whole / step,
        tolerance=0.25,
    )


def _who_gains(L: Teacher) -> Script:
    balance = H100.operations_per_byte
    prompt = operations_per_byte(LONG_PROMPT, BF16)
    slow, same = "hardly faster", "about 3 times faster"
    yield L.predict(
        f"""Each weight, 2 bytes in bfloat16, is used for each of a prompt's {LONG_PROMPT} tokens:
        {2 * LONG_PROMPT:,} operations, {prompt:.0f} for each byte. An {H100.name}, a large GPU, can
        do {balance:.0f} in the time of reading a byte. In Q4_1 there are 3.2 times fewer bytes. How
        much faster is the prompt?
        - {slow}
        - {same}: This step does not wait for bytes, but for arithmetic.
        - 6.4 times faster: That is over float32, and for a step that waits for bytes.
        = Its limit is arithmetic: it is **compute-bound**. Fewer bytes help steps that wait for
          memory: decodes of few requests. Unpacking uses arithmetic that is idle there.""",
        answer=lambda: slow if prompt > balance else same,
    )


def _room_for_keys(L: Teacher) -> tuple[LessonEngine, LessonEngine]:
    """Two engines with the same bytes for keys and values: float32, and int8."""
    probe = _engine(L, "probe")
    room = {"num_blocks": None, "kv_cache_memory_bytes": FEW_BLOCKS * probe.header.block_bytes}
    large = _engine(L, "an int8 KV cache", **room, **INT8)
    small = _engine(L, "a float32 KV cache", **room)
    _ask((small, large), *PEOPLE)
    return small, large


def _capacity(L: Teacher, small: LessonEngine, large: LessonEngine) -> Script:
    config = small.loaded.config
    heads = 2 * config.num_hidden_layers * config.num_key_value_heads
    L.focus("blockmap")
    yield L.say("""Keys and values can be stored in fewer bits, too: `kv_cache_dtype='int8'`. A
        number becomes a byte from -127 to 127. There is no minimum, only a float32 **scale**. Each
        token has one for each head, key and value; vLLM calls this `int8_per_token_head`.""")
    yield L.predict(
        f"""In float32, a token takes {small.bytes_per_token:,} bytes here: {heads} heads (keys and
        values, all layers) of {config.head_size} numbers. How many bytes with int8? [byte]
        - {small.bytes_per_token // 4}: Do not forget the scales: {heads} of 4 bytes.
        - {small.bytes_per_token // 2}: An int8 has a quarter of the bits of a float32.
        - else: {heads} heads, each with {config.head_size} bytes and a scale of 4.
        = Larger heads share a scale among more numbers, so the scales weigh less there.""",
        answer=lambda: large.bytes_per_token,
    )
    yield L.predict(
        f"""Both engines have the same bytes for the cache. With float32 there are
        {small.num_blocks} blocks. How many are there with int8? [block]
        - {4 * small.num_blocks}: Nearly, but the scales need room.
        - {2 * small.num_blocks}: That would be the gain over bfloat16.
        = That is **capacity**: how much fits. Now see what it is good for.""",
        before=lambda: L.show(large),
        answer=lambda: large.num_blocks,
        tolerance=0.08,
    )
    small.run()
    before = small.fold.counters.num_preemptions
    yield L.predict(
        f"""Three requests need more than {small.num_blocks} blocks at their ends, as in lesson 10.
        With float32, the number of preemptions is {before}. And with int8, in the same bytes?
        [preemption]
        - {before}: There are more blocks now than all three need.
        = Nothing was computed twice, and no user saw a pause.""",
        before=large.run,
        answer=lambda: large.fold.counters.num_preemptions,
        focus="timelines",
    )


def _bandwidth(L: Teacher, small: LessonEngine, large: LessonEngine) -> Script:
    few, fewer = _engine(L, "ada alone", num_blocks=AMPLE), "she needs fewer steps"
    many = _engine(L, "ada alone, twice the memory", num_blocks=2 * AMPLE)
    _ask((few, many), "ada")
    yield L.predict(
        f"""**Bandwidth** is something else: how fast bytes are read. ada is alone. She gets a
        machine with twice the memory, so {2 * AMPLE} blocks instead of {AMPLE}, but no faster
        memory. What changes for her?
        - nothing
        - her steps are shorter: The same bytes must be read in each, at the same speed.
        - {fewer}: Each of her tokens still needs the one before it.
        = Capacity decides how many run together. Bandwidth decides how long a step takes.""",
        before=lambda: [engine.run() for engine in (few, many)],
        answer=lambda: fewer if few.fold.step > many.fold.step else "nothing",
        focus="step_history",
    )
    weights = BF16 * weights_per_pass(small.loaded.config)
    wide, narrow = (weights + USERS * CONTEXT * engine.bytes_per_token for engine in (small, large))
    yield L.predict(
        f"""But int8 keys help bandwidth, too. {USERS} requests have {CONTEXT} tokens each. A step
        reads {weights / 1e6:.2f} MB of weights once, and the keys and values of all tokens:
        {(wide - weights) / 1e6:.1f} MB in float32, {(narrow - weights) / 1e6:.1f} MB in int8. How
        many times fewer bytes is that in all? [time]
        - 4: The weights are read all the same.
        - else: Add the weights to both sums, then divide.
        = With many users and long texts, the cache is most of what a step reads.""",
        answer=lambda: wide / narrow,
        tolerance=0.1,
    )


def _what_changes(L: Teacher) -> Script:
    exact = _engine(L, "float32 keys", num_blocks=AMPLE)
    rounded = _engine(L, "int8 keys", num_blocks=AMPLE, **INT8)
    _ask((exact, rounded), "ada", prompt=STORIES["ada"], max_tokens=ANSWER, logprobs=0)
    yield L.predict(
        f"""Do the numbers stay the same? ada gets {ANSWER} tokens with float32 keys and values, and
        again with int8. For each token, the engine also reports the logarithm of its probability.
        How many of these {ANSWER} numbers are exactly equal? [number]
        - {ANSWER}: Stored weights are what the model is. Keys and values are computed in float32,
          and int8 rounds them.
        - else: Each key is off by up to half a step, so every score changes a little.""",
        before=lambda: [engine.run() for engine in (exact, rounded)],
        answer=lambda: sum(map(float.__eq__, _logprobs(exact), _logprobs(rounded))),
        focus="eventlog",
        because=lambda: (
            f"{ANSWER - num_different(exact, rounded, 'ada')} of {ANSWER} tokens are the same here."
            " But where two tokens are nearly tied, int8 may choose the other one."
        ),
    )
    yield from _one_scale_for_each_token(L)


def _one_scale_for_each_token(L: Teacher) -> Script:
    ample = _engine(L, "int8, ample memory", num_blocks=AMPLE, **INT8)
    tight = _engine(L, "int8, short of memory", num_blocks=FEW_BLOCKS, **INT8)
    _ask((ample, tight), *PEOPLE)
    yield L.predict(
        """Last question. The three requests run with int8, once with ample memory, and once in a
        cache so small that one is preempted and its keys are computed again, in one chunk. Does a
        token change?
        - yes: In a chunk as in a decode, keys are rounded before a token reads them, and each token
          has its own scales.
        - no
        = If tokens shared a scale, a later, larger one would change the numbers before it. So int8
          may change tokens, but scheduling still never does.""",
        before=lambda: [engine.run() for engine in (ample, tight)],
        answer=lambda: "yes" if any(num_different(ample, tight, name) for name in PEOPLE) else "no",
        focus="timelines",
    )
    L.check("a request was preempted in the tight cache", tight.fold.counters.num_preemptions > 0)


def _engine(L: Teacher, name: str, **options: object) -> LessonEngine:
    batch = {"max_num_seqs": 3, "max_num_batched_tokens": 64, "enable_prefix_caching": False}
    return L.engine(name, **{"num_blocks": 32, **batch, **options})


def _ask(engines: tuple[LessonEngine, ...], *names: str, **request: object) -> None:
    """The same requests for each engine."""
    for engine in engines:
        for name in names:
            engine.add(name, **{"prompt": PROMPT, "max_tokens": WISH, **request})


def _logprobs(engine: LessonEngine) -> list[float]:
    return [event.logprob for event in engine.events_of(ev.TokenSampled)]
