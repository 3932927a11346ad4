"""The demo's scenarios, as plain data: requests, when they arrive, and options of a small engine.

    shared-prefix     one long system prompt, many questions
    burst             more requests than batch slots
    long-and-short    a long prompt beside short conversations
    memory-pressure   a KV cache too small for its requests
    two-memories      blocks that the pool must give up come back from the host's memory
    parallel-sampling four texts for one prompt, which share its blocks until they write
    beams             a beam search that forks its best beams and prunes the others
    speculation       answers that repeat themselves: drafts, and one step that verifies several
    structured        the same prompts with a grammar and without

A scenario runs on any chat model. `house.py` changes some requests for the house model. After a
change of sizes, check that each scenario still shows its idea on both. (In `parallel-sampling`
and `beams`, no prompt may end on a block boundary: then no block would be copied on write.)
"""

from collections.abc import Mapping
from functools import partial

from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP, Scenario, ask, options
from minivllm.sampling_params import StructuredOutputsParams

# A small model repeats itself under greedy decoding; the frequency penalty keeps the text readable.
# The repetition penalty would also penalize words of the question.
_ask = partial(ask, frequency_penalty=0.3)
# Several random answers. The seed is fixed, so the texts never change. top_p cuts off the least
# likely tenth, which is mostly noise in a small model.
_draw = partial(ask, temperature=1.0, top_p=0.9, n=4, seed=7)
_search = partial(ask, n=4, use_beam_search=True)


_TEACHER = (
    "You are a patient science teacher for children between eight and ten years. Explain one thing"
    " at a time, in simple words and short sentences. Begin with the answer itself, then say why it"
    " is so, and give one example that a child can see at home or outside. Do not use formulas or"
    " long technical terms; if you need a new word, explain it first. Be friendly and honest: when"
    " nobody knows the answer yet, say so. Never write more than one paragraph."
)

SHARED_PREFIX = Scenario(
    name="shared-prefix",
    teaches="Requests that begin with the same tokens share the blocks that hold them.",
    watch="four users share a prompt's blocks; gil and hana find the blocks again.",
    options=options(num_blocks=40, max_num_seqs=4, max_num_batched_tokens=192, max_model_len=1024),
    waves=(
        (
            _ask("ada", "Why is the sky blue?", 96, system=_TEACHER),
            _ask("ben", "How do birds fly?", 96, system=_TEACHER),
            _ask("cleo", "Where does rain come from?", 96, system=_TEACHER),
            _ask("dan", "Why do we sleep at night?", 96, system=_TEACHER),
            _ask("eve", "What is a volcano?", 96, system=_TEACHER, after_steps=12),
            _ask("finn", "Why is the sea salty?", 96, system=_TEACHER, after_steps=24),
        ),
        (
            _ask("gil", "How does a magnet work?", 96, system=_TEACHER),
            _ask("hana", "Why does ice float on water?", 96, system=_TEACHER),
        ),
    ),
    sides=("paged+no-prefix-caching", "paged"),
)

BURST = Scenario(
    name="burst",
    teaches=(
        "A slot is given to the next request as soon as its sequence ends: the batch never waits"
        " for its slowest member."
    ),
    watch="twelve requests for four slots: when one ends, another takes its slot.",
    options=options(num_blocks=64, max_num_seqs=4, max_num_batched_tokens=128, max_model_len=512),
    waves=(
        (
            _ask("ada", "What is the capital of France?", 16),
            _ask("ben", "Write a short story about a lighthouse.", 128),
            _ask("cleo", "Name three primary colors.", 24),
            _ask("dan", "Explain why the sky is blue.", 96),
            _ask("eve", "How many legs does a spider have?", 32),
            _ask("finn", "Describe how to bake bread.", 128),
            _ask("gil", "Say hello in Spanish.", 16),
            _ask("hana", "Why do leaves change color in autumn?", 96),
            _ask("ivo", "Name the largest ocean.", 24),
            _ask("june", "Give me a tip for learning the piano.", 64),
            _ask("kai", "What do bees make?", 24),
            _ask("lena", "Write a poem about the moon.", 96),
        ),
    ),
)

_TRAVEL_DIARY = (
    "Summarize this page of a diary in two sentences.\n\nWe left the harbour before sunrise,"
    " because the wind was good and the captain did not trust the clouds in the west. For the first"
    " hours nobody spoke much. The old sails made more noise than all of us together, and the coast"
    " behind us turned from green to grey and then to a thin line that might have been a wave. At"
    " noon we ate bread and cold fish. The youngest of the crew asked how long the crossing would"
    " take, and the captain said that the sea does not own a clock.\nIn the afternoon the clouds"
    " came after all. It rained for an hour, so hard that we collected two barrels of fresh water"
    " without trying, and everybody was suddenly in a good mood. Someone began to sing, badly, and"
    " the others joined in to make it worse. When the rain stopped there were dolphins on the left"
    " side of the ship, nine of them, and they stayed with us until it was too dark to"
    " count.\nDuring my watch at night I saw a light far away in the south. It moved slowly and"
    " then it was gone. I woke the captain, who looked for a long time, shrugged, and wrote it into"
    " the log with a question mark. I think about that question mark more than about the light."
    " Tomorrow, if the wind holds, we shall see the islands, and I shall finally send you this"
    " letter."
)

LONG_AND_SHORT = Scenario(
    name="long-and-short",
    teaches=(
        "A long prompt goes through in chunks, in the part of the token budget that the others"
        " leave over."
    ),
    watch="each running answer takes one token, the long prompt takes the rest.",
    options=options(num_blocks=144, max_num_seqs=4, max_num_batched_tokens=32, max_model_len=2048),
    waves=(
        (
            _ask("ada", "Why do cats sleep so much?", 128),
            _ask("ben", "Explain how a rainbow forms.", 160),
            _ask("diary", _TRAVEL_DIARY, 96, after_steps=16),
            _ask("cleo", "Give me three ideas for a rainy day.", 128, after_steps=20),
        ),
    ),
)

MEMORY_PRESSURE = Scenario(
    name="memory-pressure",
    teaches=(
        "When no block is free, the newest sequence loses its blocks and computes them again later:"
        " it costs time, never text."
    ),
    watch="the pool fills as the stories grow; then one is preempted, and waits.",
    options=options(num_blocks=24, max_num_seqs=4, max_num_batched_tokens=64, max_model_len=384),
    waves=(
        (
            _ask("ada", "Tell me a story about a dragon.", 160),
            _ask("ben", "Tell me a story about a robot.", 160),
            _ask("cleo", "Tell me a story about a pirate.", 160),
            _ask("dan", "Tell me a story about a wizard.", 160),
        ),
    ),
)


# The link is slow, so that the virtual clock shows a request that waits for its blocks.
_TIER = {"num_cpu_blocks": 64, "gigabytes_per_second": 0.01}

TWO_MEMORIES = Scenario(
    name="two-memories",
    teaches="A block is copied to the host before its eviction, so nobody computes it twice.",
    watch="gil and hana need what ada and ben had: it comes back from the host.",
    options=options(
        num_blocks=40, max_num_seqs=4, max_num_batched_tokens=64, max_model_len=1024,
        kv_transfer_config={
            "kv_connector": "SimpleCPUOffloadConnector", "kv_connector_extra_config": _TIER,
        },
    ),
    waves=(
        (
            _ask("ada", "Why do cats sleep so much?", 80, system=f"Class one. {_TEACHER}"),
            _ask("ben", "How do birds fly?", 80, system=f"Class two. {_TEACHER}"),
        ),
        (
            _ask("cleo", "What is a volcano?", 80, system=f"Class three. {_TEACHER}"),
            _ask("dan", "Why is the sea salty?", 80, system=f"Class four. {_TEACHER}"),
            _ask("eve", "Where does rain come from?", 80, 40, system=f"Class five. {_TEACHER}"),
        ),
        (
            _ask("gil", "How does a magnet work?", 80, system=f"Class one. {_TEACHER}"),
            _ask("hana", "Why is the sky blue?", 80, system=f"Class two. {_TEACHER}"),
            _ask("ivo", "What is a rainbow?", 48),
        ),
    ),
    sides=("evict", "offload"),
)  # fmt: skip

_BOAT = (
    "Write the first sentence of a story about the keeper of a lighthouse who has not spoken to"
    " anybody for a year, and who one morning finds a small boat on the rocks, and in the boat a"
    " letter that begins with his own name."
)
_MARKET = (
    "Begin a fairy tale about a girl who sells maps at the market of a harbour town, and who one"
    " evening is asked by an old sailor for the map of an island that she has seen only in her"
    " dreams. One sentence is enough."
)

PARALLEL_SAMPLING = Scenario(
    name="parallel-sampling",
    teaches=(
        "Several texts for one prompt share all of its blocks, and a block is copied only when one"
        " of them writes into it."
    ),
    watch="four samples share a prompt's blocks; to write, three copy the last.",
    options=options(num_blocks=64, max_num_seqs=6, max_num_batched_tokens=256, max_model_len=512),
    waves=(
        (
            _draw("ada", _BOAT, 64),
            _ask("ben", "What is a lighthouse for?", 64),
            _draw("cleo", _MARKET, 64, 24),
        ),
    ),
    # Contiguous memory cannot share blocks.
    sides=("sequential", "continuous"),
)

BEAMS = Scenario(
    name="beams",
    teaches=(
        "A beam search forks its best texts and drops the others: blocks change owners, nothing is"
        " recomputed."
    ),
    watch="the best beams fork, the others are pruned; common tokens are shared.",
    options=options(num_blocks=40, max_num_seqs=5, max_num_batched_tokens=128, max_model_len=512),
    waves=(
        (
            _search("ada", "Tell me a story about a robot.", 56),
            _ask("ben", "What is a rainbow?", 56),
        ),
        (_search("cleo", "What is a good title for a book about the sea?", 56),),
    ),
    sides=("sequential", "continuous"),
)


# Tasks of the house model. No penalty: it would make every repetition less likely.
_WITH_DRAFTS = options(
    num_blocks=32,
    max_num_seqs=4,
    max_num_batched_tokens=96,
    max_model_len=384,
    speculative_config=PROMPT_LOOKUP,
)

SPECULATION = Scenario(
    name="speculation",
    teaches=(
        "Words that were there before are drafted, and one step verifies several of them: fewer"
        " steps, the same text."
    ),
    watch="right drafts are underlined, wrong ones struck out; the story has few.",
    options=_WITH_DRAFTS,
    waves=(
        (ask("ada", "Repeat four times: Zoe wants the golden map of Paul."),),
        (
            ask("ben", "Repeat three times: Finn sees the red kite of Hana."),
            ask("cleo", "Write a JSON record for request cleo, 128 tokens, waiting."),
            ask("dan", "Copy this line: Olga has the old lamp of Sam."),
            ask("eve", "Tell me a story about a dragon.", max_tokens=160),
            ask("finn", "Repeat four times: robot dragon lighthouse baker", after_steps=28),
            ask("gil", "Repeat three times: Monday bread tulip Paris", after_steps=48),
            ask("hana", "Write a JSON record for Hana, 27, from Tokyo.", after_steps=64),
        ),
    ),
)

_WORD = {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}
_AGE = {"type": "integer", "minimum": 0, "maximum": 120}
_PERSON = StructuredOutputsParams(
    json={
        "type": "object",
        "properties": {"name": _WORD, "age": _AGE, "city": _WORD},
        "required": ["name", "age", "city"],
        "additionalProperties": False,
    },
    # At most one space between two parts: the house model has learned to write one.
    whitespace_pattern=" ?",
)


_RECORD, _WHO = "Write a JSON record for Hana, 27, from Tokyo.", "Who is Hana, 27, from Tokyo?"
_CAPITAL = "What is the capital of France?"
_ANSWERS = StructuredOutputsParams(choice=["Answer: Oslo", "Answer: Paris", "Answer: Rome"])
# The model wants to begin with `The`, and this form lets it.
_SENTENCE = StructuredOutputsParams(regex=r"The capital of France is [A-Z][a-z]+\.")
_formed = partial(ask, seed=2)

STRUCTURED = Scenario(
    name="structured",
    teaches="A grammar masks every token that would break the form, so a weak model can be parsed.",
    watch="ben's record fits its schema, ada's does not; forced words are blue.",
    # Forced tokens are drafts.
    options=_WITH_DRAFTS,
    # ada and ben draw with the same random numbers, at a temperature that breaks ada's record. eve and
    # finn ask the same question, and only finn's form is one that the model would choose itself.
    waves=(
        (
            _formed("ada", _RECORD, temperature=1.6),
            _formed("ben", _RECORD, temperature=1.6, structured_outputs=_PERSON),
        ),
        (
            _formed("gil", "Tell me a story about a dragon.", 160),
            _formed("cleo", _WHO),
            _formed("dan", _WHO, structured_outputs=_PERSON),
            _formed("eve", _CAPITAL, structured_outputs=_ANSWERS),
            _formed("finn", _CAPITAL, after_steps=12, structured_outputs=_SENTENCE),
        ),
    ),
)

_ALL = (
    SHARED_PREFIX, BURST, LONG_AND_SHORT, MEMORY_PRESSURE, TWO_MEMORIES, PARALLEL_SAMPLING, BEAMS,
    SPECULATION, STRUCTURED,
)  # fmt: skip
SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
