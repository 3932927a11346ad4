"""`ModelRunner`: executes a plan, in one forward pass for all its sequences.

It owns the KV cache (through its attention backend) and the rows of the batch. It makes no
scheduling decisions and changes no sequence.

On CUDA, it runs the largest possible step once at the start, and the KV cache gets the memory that
is left. With a guess, the first full step could run out of memory hours later.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py`, `gpu_worker.py` (`determine_available_memory`).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy, SchedulerOutput
from minivllm.errors import ConfigError, SamplingError
from minivllm.outputs import SampledToken
from minivllm.runtime.attention.backend import (
    AttentionBackend,
    choose_attention_backend,
    get_attention_backend,
)
from minivllm.runtime.attention.watcher import AttentionWatcher
from minivllm.runtime.cpu.layers import CpuLayers
from minivllm.runtime.cuda_graphs import DecodeGraphs, Forward, max_num_rows
from minivllm.runtime.input_batch import (
    NOT_WRITTEN,
    CommonAttentionMetadata,
    InputBatch,
    ModelInput,
)
from minivllm.runtime.kv_cache import (
    default_cpu_cache_bytes,
    num_blocks_that_fit,
    require_cpu_memory,
)
from minivllm.runtime.loader import LoadedModel
from minivllm.runtime.model.custom_ops import choose_kernels, make_ops
from minivllm.runtime.model.linear_backend import CpuMatrix
from minivllm.runtime.sampling.sampler import Sampler, compute_prompt_logprobs
from minivllm.runtime.step_result import WATCH_NOTHING, StepResult, Watch


class ModelRunner:
    def __init__(
        self,
        config: EngineConfig,
        model: LoadedModel,
        now: Callable[[], float] | None = None,
        draft: LoadedModel | None = None,
    ) -> None:
        """Allocate the KV cache; that of the `draft` model, with as many blocks, must fit besides.

        Raises `ConfigError` if they do not fit into memory.
        """
        self._config, self._model = config, model
        self._now = now or MonotonicClock().now
        self.max_model_len = _settle_max_model_len(config, model)
        self._spec = model.kv_cache_spec(config.block_size, config.kv_cache_dtype)
        if draft is not None:
            beside = draft.kv_cache_spec(config.block_size, config.kv_cache_dtype)
            self._spec = replace(self._spec, draft_bytes_per_block=beside.bytes_per_block)
        # Tokens of a decode in one step: the last known one and drafts.
        speculative = config.speculative_config
        self._max_query_len = 1 + (speculative.num_speculative_tokens if speculative else 0)
        self.block_bytes = self._spec.bytes_per_block
        self.stored_kv = (self._spec.stored_name, self._spec.head_size)
        asked = config.attention_backend
        matrix = type(model.decoder.embed_tokens.matrix)
        if asked == "auto" and model.device.type == "cpu" and matrix is not CpuMatrix:
            # Our threads and those of torch's products would spin on the same cores.
            asked = "torch"
        self.attention_backend = choose_attention_backend(asked, self._spec, model.device)
        """`torch`, `cpu`, or `triton:` and a kernel version."""
        kernels = choose_kernels(config.custom_ops, self.attention_backend, model.device)
        self._fuses_rotation = "rotary_and_cache" in kernels
        self._ops = make_ops(kernels, self.attention_backend, matrix)
        self.num_blocks = self._settle_num_blocks()
        self._attention = self._make_attention(self.num_blocks)
        self.kv_caches = self._attention.kv_caches
        self._forward = self._forward_in_one_call() or self._forward_by_modules(self._attention)
        self._decode_graphs = None
        if self.attention_backend in ("triton:static", "triton:unified"):
            self._decode_graphs = self._make_decode_graphs()
        self._batch = InputBatch(config.max_num_seqs, self.max_model_len, config.block_size)
        self._sampler = Sampler(model.tokenizer.eos_token_ids, config.seed)

    @torch.inference_mode()
    def execute_model(self, plan: SchedulerOutput, watch: Watch = WATCH_NOTHING) -> StepResult:
        """Run the plan's tokens through the model and record its attention as `watch` asks."""
        begin = self._now()
        inputs = self._batch.prepare(plan)
        watcher = None
        if watch != WATCH_NOTHING:
            watcher = AttentionWatcher(
                watch, inputs.attention, self._attention, self._spec, self._model.device
            )
        run = self._prepare(inputs, watcher)
        sampling_rows = None if inputs.samples_every_row else self._tensor(inputs.sampling_rows)
        t_prepare = self._now() - begin
        hidden = run()
        compute_logits = partial(self._model.decoder.compute_logits, ops=self._ops)
        judged = compute_prompt_logprobs(plan, hidden, compute_logits)
        # The LM head is the largest matrix of a small model: apply it to the sampling rows only.
        if sampling_rows is not None:
            hidden = hidden.index_select(0, sampling_rows)
        result = StepResult(plan, compute_logits(hidden), t_prepare, judged)
        return result if watcher is None else watcher.add_to(result)

    @torch.inference_mode()
    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Copy blocks of the KV cache. All sources are read before any block is written."""
        self._attention.copy_blocks(copies)

    @property
    def fingerprint(self) -> str:
        """Runners with the same one write the same keys and values: name, dtypes, some weights."""
        model = self._model
        digest = sha256(f"{model.name} {model.weights} {model.dtype}".encode())
        for parameter in model.decoder.parameters():
            digest.update(parameter.flatten()[:256].float().cpu().numpy().tobytes())
        return f"{model.name} {digest.hexdigest()[:12]}"

    def device_works(self) -> bool:
        """Whether the device still works; after an assert or an illegal address, CUDA does not."""
        if self._model.device.type == "cuda":
            try:
                # Synchronizing needs no memory, so it works after an out-of-memory error.
                torch.cuda.synchronize(self._model.device)
            except RuntimeError:
                return False
        return True

    def _prepare(
        self, inputs: ModelInput, watcher: AttentionWatcher | None
    ) -> Callable[[], torch.Tensor]:
        """Put a step's inputs on the device. Returns what runs the decoder: () -> hidden states."""
        graphs = self._decode_graphs
        if watcher is None and graphs is not None and graphs.accepts(inputs):
            graphs.set_batch(inputs)
            return graphs.run
        token_ids, positions = self._tensor(inputs.token_ids), self._tensor(inputs.positions)
        metadata = self._attention.build(inputs.attention)
        if watcher is None:
            return partial(self._forward, token_ids, positions, metadata)
        run = partial(self._forward_by_modules(watcher), token_ids, positions, metadata)
        return partial(watcher.count_experts, self._model.decoder, run)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        # `non_blocking` is safe: memory that is not pinned is read before the call returns.
        return torch.from_numpy(array).to(self._model.device, non_blocking=True)

    @torch.inference_mode()
    def sample_tokens(
        self, sequences: list[Sequence], logits: torch.Tensor, watched: Collection[Sequence] = ()
    ) -> list[SampledToken | SamplingError]:
        """See `Runner.sample_tokens`. logits: [num_seqs, vocab_size]"""
        return self._sampler.sample_each(logits, sequences, watched)

    # ---- the size of the KV cache ----

    def _settle_num_blocks(self) -> int:
        config = self._config
        on_cuda = self._model.device.type == "cuda"
        if (num_blocks := config.num_gpu_blocks_override) is None:
            num_bytes = config.kv_cache_memory_bytes
            if num_bytes is None:
                measure = self._profile_cuda_cache_bytes if on_cuda else default_cpu_cache_bytes
                num_bytes = measure()
            num_blocks = num_blocks_that_fit(self._spec, num_bytes)
            if config.kv_cache_memory_bytes is None and not on_cuda:
                # A small model does not fill 1 GiB, and nobody sees what happens in it.
                most = config.max_num_seqs * -(-self.max_model_len // config.block_size)
                num_blocks = min(num_blocks, most)
        if not on_cuda:
            require_cpu_memory(self._spec, num_blocks)
        return num_blocks

    def _profile_cuda_cache_bytes(self) -> int:
        """Return the bytes of `gpu_memory_utilization` that weights and the largest step leave."""
        device = self._model.device
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        self._run_largest_step()
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device)
        free, total = torch.cuda.mem_get_info(device)
        not_ours = total - free - torch.cuda.memory_reserved(device)
        torch.cuda.empty_cache()
        return int(total * self._config.gpu_memory_utilization) - peak - not_ours

    @torch.inference_mode()
    def _run_largest_step(self) -> None:
        """Run a chunk of `max_num_batched_tokens` tokens over a cache of one block, not written."""
        num_tokens, device = self._config.max_num_batched_tokens, self._model.device
        num_blocks_of_chunk = -(-num_tokens // self._config.block_size)
        attention = self._make_attention(num_blocks=1)
        table = np.zeros((1, num_blocks_of_chunk), dtype=np.int64)
        slots, starts = np.full(num_tokens, NOT_WRITTEN), np.array([0, num_tokens])
        metadata = attention.build(CommonAttentionMetadata(starts, starts[:1], table, slots))
        token_ids = torch.zeros(num_tokens, dtype=torch.int64, device=device)
        positions = torch.arange(num_tokens, device=device)
        hidden = self._forward_by_modules(attention)(token_ids, positions, metadata)
        num_rows = self._config.max_num_seqs * self._max_query_len
        self._model.decoder.compute_logits(hidden[:num_rows], self._ops)

    # ---- what runs the decoder ----

    def _forward_by_modules(self, attention: AttentionBackend | AttentionWatcher) -> Forward:
        """Return what runs the decoder, module by module, without a reference to the runner: that
        cycle would keep the device's memory allocated.
        """
        decoder, ops = self._model.decoder, self._ops

        def run(token_ids: torch.Tensor, positions: torch.Tensor, metadata: Any) -> torch.Tensor:
            return decoder(token_ids, positions, partial(attention.forward, metadata=metadata), ops)

        return run

    def _forward_in_one_call(self) -> Forward | None:
        """Return what runs all layers in one call, if all their operations are our C kernels."""
        if self.attention_backend != "cpu" or self._config.custom_ops not in (None, ["all"]):
            return None
        decoder = self._model.decoder
        supported = CpuLayers.supports(decoder)
        return CpuLayers(decoder, self._attention, self._spec) if supported else None

    def _make_decode_graphs(self) -> DecodeGraphs:
        device = self._model.device
        graphs = DecodeGraphs(
            self._attention.static_inputs, self._attention.static_metadata, self._forward,
            self._max_query_len, self._model.config.hidden_size, self._model.dtype, device,
        )  # fmt: skip
        # The loop over experts waits for the router, which a graph cannot. The kernels of `fused_moe`
        # need not wait, but nobody has captured them yet.
        is_fixed = not self._model.config.num_experts
        if device.type == "cuda" and is_fixed and not self._config.enforce_eager:
            graphs.capture()
        return graphs

    def _make_attention(self, num_blocks: int) -> AttentionBackend:
        return get_attention_backend(
            self.attention_backend, self._spec, num_blocks, self._model.device,
            num_heads=self._model.config.num_attention_heads,
            max_num_rows=max_num_rows(self._config.max_num_seqs, self._max_query_len),
            max_model_len=self.max_model_len, fuses_rotation=self._fuses_rotation,
        )  # fmt: skip


def _settle_max_model_len(config: EngineConfig, model: LoadedModel) -> int:
    limit = model.config.max_position_embeddings
    if config.max_model_len is None:
        return limit
    if config.max_model_len > limit:
        raise ConfigError(
            f"max_model_len is {config.max_model_len}, but {model.name} supports at most {limit};"
            " lower max_model_len."
        )
    return config.max_model_len
