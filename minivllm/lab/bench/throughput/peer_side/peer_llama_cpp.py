"""llama.cpp through llama-cpp-python's low-level API, with continuous batching as in llama-server.

A batch has one token of each decoding sequence, and as many prompt tokens as fit. The common prefix
of all prompts is computed once and shared with `llama_memory_seq_cp`. Only requested tokens have
logits, found by a token's position in the batch.
"""

from itertools import takewhile

import llama_cpp
import numpy as np

PACKAGES = ("llama_cpp", "numpy")
GGML_TYPES = {"float32": 0, "float16": 1, "bfloat16": 30}
BATCH_TOKENS = 512


class CacheSequence:
    """A request that uses one of the sequences in llama.cpp's cache."""

    def __init__(self, index: int, prompt: list[int], max_tokens: int) -> None:
        self.index = index
        self.pending = prompt
        """Tokens that the model has not computed yet."""
        self.max_tokens = max_tokens
        self.output: list[int] = []


class Engine:
    """A context with one sequence per slot, plus one for the common prefix of all prompts."""

    def __init__(self, settings: dict) -> None:
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(settings["model"].encode(), model_params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {settings['model']}")
        self._slots = settings["max_num_seqs"]
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = settings["max_model_len"] * self._slots
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_seq_max = self._slots + 1
        params.n_threads = params.n_threads_batch = settings["num_threads"]
        params.type_k = params.type_v = GGML_TYPES[settings["dtype"]]
        # Otherwise each sequence has its own part of the cache, so sharing would copy.
        params.kv_unified = True
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError("llama.cpp cannot make a context")
        self._memory = llama_cpp.llama_get_memory(self._context)
        vocab = llama_cpp.llama_model_get_vocab(self._model)
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)
        self._batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)
        self._position: list[int] = []
        """Index of a sequence in the cache -> its number of tokens."""

    def generate(self, prompts: list[list[int]], max_tokens: list[int]) -> list[list[int]]:
        llama_cpp.llama_memory_clear(self._memory, False)
        self._position = [0] * (self._slots + 1)
        shared = _common_length(prompts)
        keeper = CacheSequence(self._slots, prompts[0][:shared], 0)
        while keeper.pending:
            self._step([keeper])
        waiting = [(number, prompt[shared:]) for number, prompt in enumerate(prompts)][::-1]
        free = list(range(self._slots))
        running: dict[int, CacheSequence] = {}
        outputs: list[list[int]] = [[] for _ in prompts]
        while waiting or running:
            while waiting and free:
                number, rest = waiting.pop()
                running[number] = CacheSequence(free.pop(), rest, max_tokens[number])
                if shared:
                    index = running[number].index
                    llama_cpp.llama_memory_seq_cp(self._memory, self._slots, index, 0, shared)
                    self._position[index] = shared
            self._step(list(running.values()))
            for number, sequence in list(running.items()):
                if len(sequence.output) == sequence.max_tokens:
                    outputs[number] = sequence.output
                    llama_cpp.llama_memory_seq_rm(self._memory, sequence.index, -1, -1)
                    self._position[sequence.index] = 0
                    free.append(sequence.index)
                    del running[number]
        return outputs

    def _step(self, sequences: list[CacheSequence]) -> None:
        """Run one batch; the shortest pending inputs come first, so that decodes do not wait."""
        batch, used = self._batch, 0
        sampling: list[tuple[CacheSequence, int]] = []
        for sequence in sorted(sequences, key=lambda s: len(s.pending)):
            take = min(len(sequence.pending), BATCH_TOKENS - used)
            tokens, sequence.pending = sequence.pending[:take], sequence.pending[take:]
            for token in tokens:
                batch.token[used] = token
                batch.pos[used] = self._position[sequence.index]
                batch.n_seq_id[used] = 1
                batch.seq_id[used][0] = sequence.index
                batch.logits[used] = 0
                self._position[sequence.index] += 1
                used += 1
            if take and not sequence.pending and sequence.max_tokens:
                batch.logits[used - 1] = 1
                sampling.append((sequence, used - 1))
        batch.n_tokens = used
        if (status := llama_cpp.llama_decode(self._context, batch)) != 0:
            raise RuntimeError(f"llama_decode failed with status {status}")
        for sequence, row in sampling:
            logits = llama_cpp.llama_get_logits_ith(self._context, row)
            token = int(np.ctypeslib.as_array(logits, shape=(self._vocab_size,)).argmax())
            sequence.output.append(token)
            sequence.pending = [token]


def _common_length(prompts: list[list[int]]) -> int:
    """Return the length of the common prefix, but leave each prompt at least one token."""
    if len(prompts) < 2:
        return 0
    same = takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    return min(len(list(same)), min(map(len, prompts)) - 1)
