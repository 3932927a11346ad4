"""`StructuredOutputManager`: checks and compiles grammars, away from the engine's thread.

    add_request   check the grammar: milliseconds, or an error for the caller
                  compile it in a thread; the request waits as `grammar_not_compiled`
    later step    compiled: the request can be admitted

Compiling prepares the grammar for the model's vocabulary. It takes a millisecond for most grammars,
and up to a second for the largest ones. llguidance releases the GIL, so other requests continue.

Source: vLLM `vllm/v1/structured_output/__init__.py`.
"""

import json
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from secrets import token_hex
from threading import Lock

from llguidance import LLMatcher, LLTokenizer

from minivllm.errors import UnusableGrammarError
from minivllm.runtime.text.tokenizer import Tokenizer
from minivllm.sampling_params import StructuredOutputsParams
from minivllm.structured_output.grammar import StructuredOutputGrammar
from minivllm.structured_output.specification import Specification, check

CACHE_SIZE = 64
"""How many compiled grammars are kept for later requests; a large one takes a few megabytes."""


class StructuredOutputManager:
    def __init__(self, tokenizer: Tokenizer, *, in_background: bool) -> None:
        """in_background: compile in a thread; otherwise `prepare` compiles before it returns"""
        self._tokenizer = tokenizer
        self._in_background = in_background
        self._pool = ThreadPoolExecutor(1, "minivllm-grammar")
        self._lock = Lock()
        self._compiled: dict[Specification, Future[LLMatcher]] = {}
        """The grammar that was used last is last."""
        self._ll_tokenizer: LLTokenizer | None = None

    def prepare(self, params: StructuredOutputsParams) -> StructuredOutputGrammar:
        """Check a grammar and start to compile it. Any thread may call this.

        Raises `InvalidSamplingParamsError` if the grammar is invalid or too large, or if no text
        can fit it. The next call with the same grammar only looks it up.
        """
        specification = Specification.of(params)
        with self._lock:
            future = self._compiled.pop(specification, None)
        if future is None:
            check(specification)
            future = self._pool.submit(self._compile, specification)
        with self._lock:
            self._compiled[specification] = future
            if len(self._compiled) > CACHE_SIZE:
                del self._compiled[next(iter(self._compiled))]
        if not self._in_background:
            wait((future,))
        forget = partial(self._forget, specification, future)
        return StructuredOutputGrammar(params.kind, future, self._tokenizer.eos_token_ids, forget)

    def _forget(self, specification: Specification, future: Future[LLMatcher]) -> None:
        """Compile a grammar anew for later requests: after an error, a matcher's copies fail too."""
        with self._lock:
            if self._compiled.get(specification) is future:
                del self._compiled[specification]

    def _compile(self, specification: Specification) -> LLMatcher:
        if self._ll_tokenizer is None:  # a quarter of a second for 49,152 tokens
            self._ll_tokenizer = _ll_tokenizer(self._tokenizer)
        return specification.compile(self._ll_tokenizer)


def _ll_tokenizer(tokenizer: Tokenizer) -> LLTokenizer:
    """Return the vocabulary as llguidance needs it, as the bytes of each token."""
    try:
        return LLTokenizer(
            _rename_control_tokens(tokenizer.to_json()), eos_token=sorted(tokenizer.eos_token_ids)
        )
    except Exception as error:
        raise UnusableGrammarError(
            f"structured_outputs does not work with this model, because llguidance cannot read its"
            f" tokenizer ({str(error)[:100]}): leave structured_outputs out."
        ) from error


def _rename_control_tokens(tokenizer_json: str) -> str:
    """Give control tokens names that no grammar spells.

    Where only one text can follow, llguidance tokenizes that text, and the text `<|im_end|>` would
    become the control token. Merges with its name must go: llguidance looks all of them up.
    """
    content = json.loads(tokenizer_json)
    secret, model = token_hex(8), content["model"]
    names = {
        token["content"]: token["content"] + secret
        for token in content["added_tokens"]
        if token["special"]
    }
    for token in content["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(text, text): i for text, i in model["vocab"].items()}
        if merges := model.get("merges"):
            model["merges"] = [
                pair for pair in merges if names.keys().isdisjoint([*pair, "".join(pair)])
            ]
    else:  # Unigram
        model["vocab"] = [[names.get(text, text), score] for text, score in model["vocab"]]
    if (unknown := model.get("unk_token")) in names:
        model["unk_token"] = names[unknown]
    return json.dumps(content)
