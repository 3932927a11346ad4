"""What a lesson's page on the site has apart from its text: pictures, and where to read on.

A lesson has twenty pages or more, and many of their pictures are alike. The pages to draw are
selected here by hand, by the number N in `minivllm lesson NAME --from N`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Picks(NamedTuple):
    teaches: str
    """One sentence, for the list of lessons."""
    skill: str
    """What a student can do afterwards: one sentence, for teachers."""
    drawn: tuple[int, ...]
    """Numbers of the pages to draw."""
    summary: str
    """Name of the text in docs/summaries about the same idea."""
    sources: tuple[tuple[str, str], ...]
    """(file, or file#name; what the code there does)"""


PICKS: Mapping[str, Picks] = MappingProxyType(
    {
        "what-serving-is": Picks(
            "Users, one engine, one device; three requests share each pass of the model.",
            "Say what engine and device do for three users, and count the passes that they share.",
            (4, 6, 10, 12),
            "server",
            (
                ("minivllm/server/app.py", "the HTTP side"),
                ("minivllm/engine/engine.py#LLMEngine", "requests in, steps, answers out"),
            ),
        ),
        "tokens": Picks(
            "A tokenizer cuts text into tokens, and each pass of the model writes one more.",
            "Count the model's passes for a prompt and its answer; tell prefill from decode.",
            (4, 6, 9, 11, 15),
            "sampling",
            (
                ("minivllm/runtime/text/tokenizer.py#Tokenizer.encode", "text to tokens"),
                ("minivllm/engine/core.py#EngineCore", "one step: schedule, run the model, sample"),
                ("minivllm/runtime/sampling/sampler.py#Sampler", "scores to one token"),
            ),
        ),
        "kv-cache": Picks(
            "Why keys and values are stored, how many bytes a token takes, how the cache grows.",
            "Compute the bytes of a token in the cache, and the work that the cache saves.",
            (3, 5, 8, 14, 16),
            "kv-cache",
            (
                ("minivllm/runtime/kv_cache.py", "the size of the cache, and its tensors"),
                (
                    "minivllm/runtime/attention/torch_backend.py#TorchAttentionBackend",
                    "keys and values written and read",
                ),
            ),
        ),
        "naive-serving": Picks(
            "Three ways to waste memory when each request reserves it for the longest answer.",
            "Compute what a reservation wastes, and name the three kinds of waste.",
            (3, 8, 9, 16, 18),
            "kv-cache",
            (
                (
                    "minivllm/core/contiguous.py#ContiguousKVCacheManager",
                    "one contiguous range for each request",
                ),
                (
                    "minivllm/events/kv_usage.py#KVUsage",
                    "used, reserved, internal and external slots",
                ),
            ),
        ),
        "block-tables": Picks(
            "Memory is allocated in blocks, when a token needs one; which slot a token gets.",
            "Find a token's slot from a block table; say when the next block is allocated.",
            (3, 4, 6, 12, 14),
            "block-pool",
            (
                (
                    "minivllm/core/kv_cache_manager.py#KVCacheManager.allocate_slots",
                    "blocks for the next tokens",
                ),
                ("minivllm/core/block_pool.py#FreeKVCacheBlockQueue", "the free queue"),
                ("minivllm/core/block_math.py#slot_mapping", "which slot a token gets"),
            ),
        ),
        "paged-attention": Picks(
            "How a kernel reads through the table, tile by tile, with a running softmax.",
            "Follow a kernel through a block table, and merge two tiles by online softmax.",
            (1, 10, 14, 16),
            "kernels",
            (
                (
                    "kernels/attention/decode_grouped.py#decode_grouped_kernel",
                    "the kernel that is traced here",
                ),
                (
                    "kernels/attention/online_softmax.py#softmax_update",
                    "the running maximum and the running sum",
                ),
                ("kernels/reference.py", "the slow reference implementation"),
            ),
        ),
        "batching": Picks(
            "Why forming a new batch in each step leaves no slot empty.",
            "Count the steps of static and continuous batching; say when a request joins.",
            (3, 9, 12, 14, 18),
            "scheduler",
            (
                ("minivllm/core/scheduler.py#Scheduler.schedule", "makes the batch of one step"),
                ("minivllm/core/admission.py", "the old ways to form a batch"),
            ),
        ),
        "one-pass": Picks(
            "How sequences of different length go through the model together, without padding.",
            "Write down the arrays of a flattened batch, and the rows that predict a token.",
            (3, 12, 19, 21),
            "scheduler",
            (
                ("minivllm/runtime/input_batch.py#InputBatch.prepare", "makes the flat batch"),
                ("minivllm/runtime/model/decoder.py", "the layers, on [num_tokens, hidden]"),
                ("kernels/reference.py", "attention of each sequence, token by token"),
            ),
        ),
        "token-budget": Picks(
            "One budget per step for prompts and answers; a long prompt runs in chunks.",
            "Cut a prompt into chunks by hand; say whom a larger budget helps, and whom it delays.",
            (4, 6, 11, 14, 17),
            "scheduler",
            (
                (
                    "minivllm/core/scheduler.py#Scheduler._schedule_running",
                    "schedules running sequences first",
                ),
                (
                    "minivllm/core/scheduler.py#Scheduler._schedule_waiting",
                    "gives waiting sequences the rest of the budget",
                ),
            ),
        ),
        "prefix-sharing": Picks(
            "How the engine finds a prefix that it has seen before; a freed block stays cached.",
            "Say which blocks of a prompt hit, and which cached block is evicted next.",
            (3, 6, 10, 15, 24),
            "prefix-cache",
            (
                ("minivllm/core/block_math.py#hash_block_tokens", "the hash of a block"),
                (
                    "minivllm/core/kv_cache_manager.py#KVCacheManager.get_computed_blocks",
                    "the lookup of a prefix",
                ),
                (
                    "minivllm/core/block_pool.py#BlockPool.release",
                    "frees a block and keeps it cached",
                ),
            ),
        ),
        "copy-on-write": Picks(
            "Several answers share blocks until one of them writes.",
            "Predict which sharer copies a block, and count the blocks of samples and beams.",
            (6, 8, 9, 15, 16),
            "copy-on-write",
            (
                ("minivllm/core/scheduler.py#Scheduler.fork", "one sequence becomes two"),
                (
                    "minivllm/core/kv_cache_manager.py#KVCacheManager._copy_on_write",
                    "gives a sequence its own copy of a block",
                ),
                ("minivllm/engine/beams.py#BeamDriver", "beam search"),
            ),
        ),
        "preemption": Picks(
            "What happens if no block is free, and which users notice it.",
            "Predict the victim, and say what its preemption costs and whom.",
            (5, 8, 10, 15, 21),
            "scheduler",
            (
                ("minivllm/core/scheduler.py#Scheduler._preempt", "takes all blocks of a sequence"),
                (
                    "minivllm/core/admission.py#RequestQueue.choose_victim",
                    "chooses that sequence",
                ),
            ),
        ),
        "serving": Picks(
            "What happens to an HTTP request, and the few metrics that describe a server.",
            "Follow an HTTP request to its tokens, and read from the metrics why it was slow.",
            (4, 7, 10, 17, 18),
            "server",
            (
                (
                    "minivllm/engine/engine_thread.py#EngineThread",
                    "takes in requests between two steps",
                ),
                (
                    "minivllm/server/metrics/router.py",
                    "/metrics, counted from events",
                ),
                ("minivllm/events/types/__init__.py", "all events"),
            ),
        ),
        "kernel-ladder": Picks(
            "Why memory limits the speed of a decode, and five kernels, each better than the last.",
            "Estimate the shortest time of a decode from its bytes; say what each kernel gains.",
            (1, 20),
            "kernels",
            (
                (
                    "kernels/attention/decode_naive.py#decode_naive_kernel",
                    "version 1: a program for each query head",
                ),
                (
                    "kernels/attention/decode_grouped.py#decode_grouped_kernel",
                    "version 2: a program for each key head",
                ),
                (
                    "kernels/attention/decode_split.py#decode_split_kernel",
                    "version 3: the context in parts",
                ),
                (
                    "kernels/attention/decode_static.py#StaticDecode",
                    "version 4: ready for a CUDA graph",
                ),
                (
                    "kernels/attention/unified.py#unified_kernel",
                    "version 5: chunks and decodes in one launch",
                ),
            ),
        ),
        "speculation": Picks(
            "Guess the next tokens, verify them in one step: free for one request, costly for 16.",
            "Compute when drafts pay, and say what becomes of a rejected one.",
            (4, 11, 14, 28, 30),
            "speculation",
            (
                ("minivllm/speculation/proposers.py#Proposer", "what a proposer is"),
                ("minivllm/speculation/proposers.py#NgramProposer", "prompt lookup"),
                (
                    "minivllm/speculation/drafter.py#SpeculativeDrafter",
                    "drafts in what is left of a plan",
                ),
                ("minivllm/speculation/verify.py#verify", "which drafts are final; roll-back"),
                ("minivllm/speculation/drafter.py#DraftLengths", "how many to draft"),
            ),
        ),
        "bytes": Picks(
            "The same weights in fewer bytes, more blocks in the same memory, and what it changes.",
            "Compute what fewer bits give in blocks and in time, and say what they change.",
            (8, 23, 25, 27, 33),
            "kv-cache",
            (
                (
                    "minivllm/runtime/quantization/formats.py#WeightFormat",
                    "how a file stores weights, and the plain way to read them",
                ),
                ("kernels/cpu/linear_formats.h", "the same, for the CPU kernel"),
                ("kernels/reference_ops.py#quantize_heads", "int8 keys and values"),
                ("minivllm/runtime/kv_cache.py#KVCacheSpec", "how many bytes a block takes"),
            ),
        ),
        "grammar": Picks(
            "A mask makes an answer fit its form: how it is found, what it costs, what it forces.",
            "Work out the mask of a step by hand, and say when a token is forced.",
            (13, 14, 18, 20, 25),
            "structured-output",
            (
                (
                    "minivllm/structured_output/reference.py#RegexAutomaton",
                    "from a pattern to the tokens that it allows",
                ),
                (
                    "minivllm/structured_output/grammar.py#StructuredOutputGrammar",
                    "the same with llguidance, brought to a sequence's tokens",
                ),
                ("minivllm/runtime/sampling/grammar_bitmask.py", "the mask on the logits"),
                ("minivllm/speculation/proposers.py#GrammarProposer", "forced tokens as drafts"),
            ),
        ),
        "way-to-vllm": Picks(
            "Which names and options are vLLM's, and what vLLM has in addition.",
            "Find each idea in vLLM's source, and translate options and metrics.",
            (8, 13, 16, 25),
            "scheduler",
            (
                ("minivllm/config.py#EngineConfig", "the options, under vLLM's names"),
                ("minivllm/server/feeds/kv_feed.py", "our events as vLLM's KV events"),
                (
                    "minivllm/core/scheduler.py#Scheduler.schedule",
                    "the rule that schedules only what is not computed yet",
                ),
            ),
        ),
        "sampling": Picks(
            "Temperature, top-k, top-p, min-p and the draw; why a seed gives the same token again.",
            "Apply temperature, top-k, top-p and min-p to a distribution, and explain one draw.",
            (1, 6, 18, 21, 27),
            "sampling",
            (
                (
                    "minivllm/runtime/sampling/logits_processors.py#to_weights",
                    "temperature, then the cuts",
                ),
                ("minivllm/runtime/sampling/sampler.py#exponentials", "a random number per token"),
                ("minivllm/runtime/sampling/sampler.py#Sampler", "the race"),
                ("minivllm/runtime/sampling/explanation.py#explain", "why this token"),
            ),
        ),
    }
)
"""By lesson name."""

SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "kv-cache": "kv-cache",
        "block-pool": "block-tables",
        "scheduler": "token-budget",
        "prefix-cache": "prefix-sharing",
        "copy-on-write": "copy-on-write",
        "sampling": "sampling",
        "server": "serving",
        "speculation": "speculation",
        "structured-output": "grammar",
        "kernels": "kernel-ladder",
    }
)
"""Name of each text in docs/summaries -> name of the lesson whose page has it."""
