"""The scenario `structured`: the same prompts with a grammar and without.

ada and ben draw with the same random numbers, at a temperature that breaks ada's record. eve and
finn ask the same question, and only finn's form is one that the model would choose itself.
"""

from collections.abc import Mapping
from types import MappingProxyType

from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP, Scenario, ScenarioRequest
from minivllm.sampling_params import SamplingParams, StructuredOutputsParams

_WORD: Mapping[str, str] = MappingProxyType({"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"})
_AGE: Mapping[str, object] = MappingProxyType({"type": "integer", "minimum": 0, "maximum": 120})
_PERSON = StructuredOutputsParams(
    json={
        "type": "object",
        "properties": {"name": {**_WORD}, "age": {**_AGE}, "city": {**_WORD}},
        "required": ["name", "age", "city"],
        "additionalProperties": False,
    },
    # At most one space between two parts: the house model has learned to write one.
    whitespace_pattern=" ?",
)


def _formed(
    request_id: str,
    question: str,
    form: StructuredOutputsParams | None,
    *,
    temperature: float = 0.0,
    max_tokens: int = 64,
    after_steps: int = 0,
) -> ScenarioRequest:
    """A question with a grammar for its answer, or without; the seed is the same for all."""
    params = SamplingParams(
        temperature=temperature, seed=2, max_tokens=max_tokens, structured_outputs=form
    )
    return ScenarioRequest(
        request_id=request_id,
        messages=({"role": "user", "content": question},),
        params=params,
        after_steps=after_steps,
    )


_RECORD, _WHO = "Write a JSON record for Hana, 27, from Tokyo.", "Who is Hana, 27, from Tokyo?"
_CAPITAL = "What is the capital of France?"
_ANSWERS = ("Answer: Oslo", "Answer: Paris", "Answer: Rome")

STRUCTURED = Scenario(
    name="structured",
    teaches="A grammar masks every token that would break the form, so a weak model can be parsed.",
    watch=(
        "ben's record fits its schema where ada's breaks; forced words, in blue, take no step of"
        " their own."
    ),
    options=MappingProxyType(
        {
            "num_gpu_blocks_override": 32,
            "max_num_seqs": 4,
            "max_num_batched_tokens": 96,
            "max_model_len": 384,
            # Forced tokens are drafts.
            "speculative_config": PROMPT_LOOKUP,
        }
    ),
    waves=(
        (
            _formed("ada", _RECORD, None, temperature=1.6),
            _formed("ben", _RECORD, _PERSON, temperature=1.6),
        ),
        (
            _formed("gil", "Tell me a story about a dragon.", None, max_tokens=160),
            _formed("cleo", _WHO, None),
            _formed("dan", _WHO, _PERSON),
            # The model wants to begin with `The`, and finn's form lets it.
            _formed("eve", _CAPITAL, StructuredOutputsParams(choice=[*_ANSWERS])),
            _formed(
                "finn",
                _CAPITAL,
                StructuredOutputsParams(regex=r"The capital of France is [A-Z][a-z]+\."),
                after_steps=12,
            ),
        ),
    ),
)
