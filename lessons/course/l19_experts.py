"""Lesson 19: mixtures of experts, where memory and not arithmetic is the price."""

from minivllm.events import types as ev
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.prompts import DIARY
from minivllm.lessons.teacher.script import Script, Teacher, lesson
from minivllm.runtime.model.model_config import ModelConfig

MODEL = "tiny-moe"
PROMPT, ANSWER = 16, 6
USERS = 16
MANY = 64
BILLIONS, ACTIVE = 30, 3
"""Weights of Qwen3-30B-A3B, all and of one token, in round numbers."""
BF16 = 2
SHARED = 8


@lesson(
    19, "experts", "Experts: a large model of which each token reads a part", minutes=9, pages=24,
    needs=("batching", "bytes"), track="more",
)  # fmt: skip
def run(L: Teacher) -> Script:
    alone = _engine(L, "ada alone")
    config = alone.loaded.config
    num_experts, top_k = config.num_experts, config.num_experts_per_tok
    alone.add("ada", PROMPT, max_tokens=ANSWER)
    L.focus("experts")
    yield L.say(f"""Most weights of a model are in its MLPs: in each layer, three matrices that
        every token goes through. A **mixture of experts** has many MLPs in each layer, called
        **experts**, and a token goes through few of them. `{MODEL}` has {num_experts} in each
        layer. (Its weights are random, so it writes noise.)""")
    yield L.say(f"""Which ones? In each layer, a small matrix, the **router**, gives every expert a
        score for this token. The token goes through the {top_k} experts with the highest scores,
        and their results are added, each times its share.""")
    yield from _a_prompt(L, alone, config)
    yield from _a_decode(L, alone, config)
    crowd = _crowd(L)
    yield from _a_batch(L, crowd, config)
    yield from _the_price(L, crowd, config)
    yield from _the_same_tokens(L, alone)
    yield L.say("""In the code: `minivllm/runtime/model/decoder.py` has `ExpertRouter` and
        `Experts`. All tokens of one expert run together, so a step reads it once. In vLLM:
        `vllm/model_executor/layers/fused_moe`, where one kernel runs all experts, over tokens that
        are sorted by expert.""")
    yield L.say(f"""Try it: `minivllm demo --model {MODEL}`. Press M, and the Scheduler screen (3)
        draws the experts of each step; w says how many it read.""")


def _a_prompt(L: Teacher, engine: LessonEngine, config: ModelConfig) -> Script:
    layers, num_experts, top_k = _sizes(config)
    yield L.predict(
        f"""ada's prompt has {PROMPT} tokens, which go through the model in one step. There are
        {layers} layers with {num_experts} experts each. How many of these {layers * num_experts}
        experts does the step read from memory? [expert]
        - {layers * top_k}: Each token has a choice of its own, and they differ.
        - {PROMPT * layers * top_k}: Tokens with the same expert read it together, once.
        - else: Nearly every expert was chosen by some of the {PROMPT} tokens.
        = The panel has a row for each layer, with the number of tokens of each expert. A prompt
          reads nearly the whole model, as always.""",
        before=engine.step,
        answer=lambda: _num_read(engine),
        tolerance=0.15,
    )


def _a_decode(L: Teacher, engine: LessonEngine, config: ModelConfig) -> Script:
    layers, num_experts, top_k = _sizes(config)
    yield L.predict(
        f"""Her next step is a decode: one token. How many of the {layers * num_experts} experts
        does it read? [expert]
        - {top_k}: That is in one layer. Each layer has experts and a router of its own.
        - {layers * num_experts}: An expert without a token is never read.
        - {layers}: The token takes {top_k} experts in each layer.
        = A dot in the panel is an expert without a token.""",
        before=engine.step,
        answer=lambda: _num_read(engine),
    )
    yield L.predict(
        f"""The experts hold nearly all weights of a large model. How many percent of the experts'
        weights does one token go through here? [%]
        - {100 // num_experts}: That would be one expert in each layer.
        - else: {top_k} of {num_experts} in each layer.
        = So it computes as much as a model a quarter as large.""",
        answer=lambda: 100 * _num_read(engine) / (layers * num_experts),
    )
    L.check(
        f"the header counts {engine.header.bytes_per_token:,} bytes for a token, of"
        f" {engine.loaded.decoder.weight_bytes:,} bytes of weights",
        engine.header.bytes_per_token < engine.loaded.decoder.weight_bytes / 2,
    )


def _a_batch(L: Teacher, crowd: LessonEngine, config: ModelConfig) -> Script:
    layers, num_experts, top_k = _sizes(config)
    total = layers * num_experts
    yield L.say(f"""Now the decodes of {USERS} users, one token each. If experts were chosen by
        chance, an expert would miss a token with probability
        {num_experts - top_k}/{num_experts}, and all {USERS} tokens with that to the power
        {USERS}.""")
    yield L.predict(
        f"""How many of the {total} experts does this step read? [expert]
        - {layers * top_k}: That was one user.
        - {total // 2}: Even a few users soon choose different experts.
        - else: An expert stays idle only if all {USERS} tokens pass it by.
        = Here memory is read as for a large model.""",
        before=crowd.step,
        answer=lambda: _num_read(crowd),
        tolerance=0.1,
    )
    fair = USERS * top_k / num_experts
    yield L.predict(
        f"""{USERS} tokens take {top_k} experts each, so each of {num_experts} experts gets
        {fair:g} tokens on average. How many does the busiest one get, in any layer? [token]
        - {fair:g}: Routers are trained towards equal numbers, but no step has them.
        - {USERS}: Then every token would have chosen it.
        - else: Look for the largest number in the panel.
        = Where experts are spread over several GPUs, all wait for the busiest one.""",
        answer=lambda: max(map(max, _routed(crowd))),
        tolerance=0.3,
    )
    L.check(
        f"in each layer, the numbers add up to {USERS * top_k}",
        {sum(counts) for counts in _routed(crowd)} == {USERS * top_k},
    )


def _the_price(L: Teacher, crowd: LessonEngine, config: ModelConfig) -> Script:
    layers, num_experts, top_k = _sizes(config)
    dense = layers * top_k
    yield L.predict(
        f"""Compare with a dense model: one MLP in each layer, as wide as {top_k} experts. A token
        needs the same arithmetic in both. In the step of {USERS} users, how many times as many
        bytes of MLPs does the mixture read? [time]
        - 1: The arithmetic is the same, but nearly every expert was read.
        - {num_experts}: The dense MLP is as wide as {top_k} experts.
        - else: It read {_num_read(crowd)} experts, and the dense model reads as much as {dense}.
        = Small batches wait for memory (lesson 13). So a mixture is cheap for one user, and dear
          for some. For hundreds, arithmetic is the limit again, and it is as cheap as the small
          model.""",
        answer=lambda: _num_read(crowd) / dense,
        tolerance=0.1,
    )
    yield L.predict(
        f"""A model with {MANY} experts in each layer, of which a token still takes {top_k}. How
        many times as many multiplications per token does that take as with {num_experts}? [time]
        - {MANY // num_experts}: That is the memory. A token goes through {top_k}, as before.
        - else: A token goes through {top_k} experts, as before.
        = The router is a little larger. So a mixture knows more at the same arithmetic, and its
          price is memory.""",
        answer=lambda: 1,
    )
    yield L.predict(
        f"""Qwen3-30B-A3B has {BILLIONS} billion weights, of which a token takes about {ACTIVE}
        billion. In bfloat16, how many gigabytes of memory do the weights need? [gigabyte]
        - {BF16 * ACTIVE}: That is what one token reads. The next token may choose any expert.
        - {BILLIONS}: A bfloat16 has {BF16} bytes.
        - else: All of them, {BF16} bytes each.
        = All must be in memory, although a token reads a tenth.""",
        answer=lambda: BF16 * BILLIONS,
        tolerance=0.1,
    )


def _the_same_tokens(L: Teacher, alone: LessonEngine) -> Script:
    beside = _engine(L, "ada among others")
    beside.add("ada", PROMPT, max_tokens=ANSWER)
    _ask(beside, SHARED)
    yield L.predict(
        f"""Last question. ada asks again, now beside {SHARED} others, who share the experts with
        her. What changes in her answer?
        - nothing
        - a token whose expert was full: Nothing is ever full: an expert runs all tokens that chose
          it. (Some trainings drop tokens; serving does not.)
        - a few last digits, and so a word: A last bit could choose another expert. That is why the
          router computes each row by itself, in float32.
        = Who else is served never decides which expert a token takes.""",
        before=lambda: [engine.run() for engine in (alone, beside)],
        answer=lambda: (
            "nothing"
            if alone.output_tokens("ada") == beside.output_tokens("ada")
            else "a few last digits, and so a word"
        ),
        focus="experts",
    )
    L.check("the others were served in the same steps", beside.fold.step == alone.fold.step)


def _routed(engine: LessonEngine) -> list[list[int]]:
    return engine.events_of(ev.ExpertsRouted)[-1].counts


def _num_read(engine: LessonEngine) -> int:
    """How many experts of all layers have a token in the last step."""
    return sum(count > 0 for counts in _routed(engine) for count in counts)


def _sizes(config: ModelConfig) -> tuple[int, int, int]:
    return config.num_hidden_layers, config.num_experts, config.num_experts_per_tok


def _engine(L: Teacher, name: str) -> LessonEngine:
    engine = L.engine(
        name, model=MODEL, num_blocks=160, max_num_seqs=USERS, max_num_batched_tokens=512,
        enable_prefix_caching=False,
    )  # fmt: skip
    engine.engine.record_attention_mass(True)
    return engine


def _crowd(L: Teacher) -> LessonEngine:
    """All users' prompts are computed; the next step is one decode for each."""
    engine = _engine(L, f"{USERS} users")
    _ask(engine, USERS)
    engine.step()
    return engine


def _ask(engine: LessonEngine, count: int) -> None:
    """Add users with prompts that all differ: parts of one long text."""
    for number in range(count):
        prompt = engine.tokens(DIARY[number * PROMPT :], PROMPT)
        engine.add(f"user{number}", prompt, max_tokens=ANSWER)
