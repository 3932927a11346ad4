"""The capstone's scenario: a bit of everything that an exercise asks for, in one small engine.

    ada, ben, cleo   share a system prompt of several blocks, and find it in the cache
    dan              three samples of one prompt, which copy its last block on write
    eve              a long prompt, in chunks, while others decode
    finn             ends at a stop string
    gil              two copies of a sentence: prompt lookup drafts it
    hana             an answer that must fit a regular expression

The pool is too small for all of them, so somebody is preempted. It is written for the house model,
and not in the list of `minivllm demo`: as a lesson it would show too much at once.
"""

from minivllm.lessons.scenarios.scenario import Message, Scenario, ScenarioRequest
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams

_SYSTEM = (
    "You are the house model of minivllm. Be friendly. You answer in plain English. Write short"
    " sentences. Never use long words. Do not write more than one paragraph."
)
_LONG = " ".join(["Tell me a story about Eve at the lighthouse, and do not forget the boat."] * 6)
_TWICE = "Say it again: the captain opened the old door and found a small golden key."
_TEMPERATURE, _TOP_P, _SEED = 1.0, 0.9, 7

_PATTERNS = (
    ("hana", "What is the capital of France?", r"The capital of France is [A-Z][a-z]+\."),
    ("ivo", "How old is Ada?", r"(Ada|She) is [1-9][0-9]? years old\."),
)


def capstone(watch: str, **options: object) -> Scenario:
    """The scenario of all pieces.

    watch: the sentence under the top line; options: further options of the engine
    """
    shared = [
        _story(name, f"Tell me a story about {what}.", 56, after, system=_SYSTEM)
        for name, what, after in (
            ("ada", "a dragon", 0),
            ("ben", "a robot", 2),
            ("cleo", "a baker", 4),
        )
    ]
    return Scenario(
        name="capstone",
        teaches="Each piece passed its own checks; here they run one engine together.",
        watch=watch,
        options={
            "num_gpu_blocks_override": 18,
            "max_num_seqs": 6,
            "max_num_batched_tokens": 64,
            "max_model_len": 384,
            **options,
        },
        waves=(
            (
                *shared,
                _story("dan", "Tell me a story about Dan and Rosa.", 40, 6, n=3),
                _story("eve", _LONG, 32, 12),
                _story(
                    "finn",
                    "Tell me a story about a wizard.",
                    56,
                    20,
                    stop=["basket.", "and Kai was"],
                ),
                _story("gil", _TWICE, 48, 24, temperature=0.0),
            ),
            (
                *_with_patterns(0),
                _story("kai", "Tell me a story about a dragon.", 32, system=_SYSTEM),
            ),
        ),
    )


def _with_patterns(after_steps: int) -> list[ScenarioRequest]:
    return [
        _story(
            name,
            question,
            48,
            after_steps,
            temperature=0.0,
            structured_outputs=StructuredOutputsParams(regex=pattern),
        )
        for name, question, pattern in _PATTERNS
    ]


def _story(
    name: str,
    question: str,
    max_tokens: int,
    after_steps: int = 0,
    *,
    system: str | None = None,
    temperature: float = _TEMPERATURE,
    **params: object,
) -> ScenarioRequest:
    messages = [Message(role="user", content=question)]
    if system is not None:
        messages.insert(0, Message(role="system", content=system))
    drawn = {} if temperature == 0 else {"top_p": _TOP_P, "seed": _SEED}
    return ScenarioRequest(
        request_id=name,
        messages=tuple(messages),
        params=SamplingParams(temperature=temperature, max_tokens=max_tokens, **drawn, **params),
        after_steps=after_steps,
    )
