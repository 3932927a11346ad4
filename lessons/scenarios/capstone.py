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

from functools import partial

from minivllm.lessons.scenarios.scenario import Scenario, ScenarioRequest, ask, options
from minivllm.sampling_params import StructuredOutputsParams

_SYSTEM = (
    "You are the house model of minivllm. Be friendly. You answer in plain English. Write short"
    " sentences. Never use long words. Do not write more than one paragraph."
)
_LONG = " ".join(["Tell me a story about Eve at the lighthouse, and do not forget the boat."] * 6)
_TWICE = "Say it again: the captain opened the old door and found a small golden key."
_STOP = ("basket.", "and Kai was")
_story = partial(ask, temperature=1.0, top_p=0.9, seed=7)

_PATTERNS = (
    ("hana", "What is the capital of France?", r"The capital of France is [A-Z][a-z]+\."),
    ("ivo", "How old is Ada?", r"(Ada|She) is [1-9][0-9]? years old\."),
)


def capstone(watch: str, **more: object) -> Scenario:
    """The scenario of all pieces.

    watch: the sentence under the top line; more: further options of the engine
    """
    return Scenario(
        name="capstone",
        teaches="Each piece passed its own checks; here they run one engine together.",
        watch=watch,
        options=options(
            num_blocks=18, max_num_seqs=6, max_num_batched_tokens=64, max_model_len=384, **more
        ),
        waves=(
            (
                _story("ada", "Tell me a story about a dragon.", 56, system=_SYSTEM),
                _story("ben", "Tell me a story about a robot.", 56, 2, system=_SYSTEM),
                _story("cleo", "Tell me a story about a baker.", 56, 4, system=_SYSTEM),
                _story("dan", "Tell me a story about Dan and Rosa.", 40, 6, n=3),
                _story("eve", _LONG, 32, 12),
                _story("finn", "Tell me a story about a wizard.", 56, 20, stop=[*_STOP]),
                ask("gil", _TWICE, 48, 24),
            ),
            (
                *_with_patterns(),
                _story("kai", "Tell me a story about a dragon.", 32, system=_SYSTEM),
            ),
        ),
    )


def _with_patterns() -> list[ScenarioRequest]:
    return [
        ask(name, question, 48, structured_outputs=StructuredOutputsParams(regex=pattern))
        for name, question, pattern in _PATTERNS
    ]
