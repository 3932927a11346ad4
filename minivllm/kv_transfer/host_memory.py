"""`HostMemory`: the host's blocks as tensors, and the copies between them and the KV cache.

On a CPU, both memories are the same RAM, and a copy is made at once. On CUDA, the host's memory is
pinned and copies run on a stream of their own, beside the model (not measured yet):

    model    ... step 6 ...     | step 7 ...            | step 8
    copies   waits for step 6 --> stores, loads --mark  |
                                                  step 8 waits for the stores

If step 7 itself writes into a block that is being stored, it waits for the stores as well. A load's
mark is a CUDA event: its sequence joins the batch in the first step after the event.

Source: vLLM `vllm/v1/simple_kv_offload/worker.py`, `copy_backend.py`.
"""

from collections.abc import Sequence as Seq

import torch

from minivllm.errors import ConfigError
from minivllm.kv_transfer.connector import Mark
from minivllm.kv_transfer.host_tier import Copier, Copies
from minivllm.runtime.kv_cache import available_cpu_memory
from minivllm.text import format_memory


class HostMemory(Copier):
    def __init__(self, kv_caches: Seq[torch.Tensor], num_blocks: int) -> None:
        """kv_caches: [num_gpu_blocks, ...] each, with all keys, values and scales of a block
        Raises `ConfigError` if the memory is not there.
        """
        self._caches, self._device = kv_caches, kv_caches[0].device
        on_cuda = self._device.type == "cuda"
        # A CPU gives memory its pages with the first write, so the KV cache has none yet.
        due = 0 if on_cuda else sum(cache.nbytes for cache in kv_caches)
        sizes = [num_blocks * cache[0].nbytes for cache in kv_caches]
        if on_cuda:  # torch rounds pinned memory up to a power of two
            sizes = [1 << (size - 1).bit_length() for size in sizes]
        need, free = sum(sizes), available_cpu_memory()
        if free is not None and need + due > free:
            raise ConfigError(
                f"kv_connector_extra_config: {num_blocks} blocks in the host's memory need"
                f" {format_memory(need)}, but {format_memory(max(free - due, 0))} are free; lower"
                " cpu_bytes_to_use or num_cpu_blocks."
            )
        self._host = [
            torch.empty((num_blocks, *cache.shape[1:]), dtype=cache.dtype, pin_memory=on_cuda)
            for cache in kv_caches
        ]
        # Of the lowest priority, which is the default: copies yield to the model.
        self._stream = torch.cuda.Stream(self._device) if on_cuda else None
        self._stored: Mark | None = None  # CUDA: after the last stores

    @torch.inference_mode()
    def copy(self, stores: Copies, loads: Copies, overwritten: bool) -> Mark:
        if self._stream is not None:
            return self._copy_on_stream(stores, loads, overwritten)
        out, back = (stores, self._caches, self._host), (loads, self._host, self._caches)
        for copies, froms, tos in (out, back):
            if copies:
                src, dst = torch.tensor(copies).T
                for source, target in zip(froms, tos, strict=True):
                    target.index_copy_(0, dst, source.index_select(0, src))
        return self

    def _copy_on_stream(self, stores: Copies, loads: Copies, overwritten: bool) -> Mark:
        model = torch.cuda.current_stream(self._device)
        if self._stored is not None:
            model.wait_event(self._stored)  # this step may write into what the last one stored
            self._stored = None
        if not (stores or loads):
            return self
        self._stream.wait_stream(model)
        with torch.cuda.stream(self._stream):
            for cache, host in zip(self._caches, self._host, strict=True):
                for src, dst in stores:
                    host[dst].copy_(cache[src], non_blocking=True)
            if stores:
                self._stored = self._stream.record_event()
            for cache, host in zip(self._caches, self._host, strict=True):
                for src, dst in loads:
                    cache[dst].copy_(host[src], non_blocking=True)
            mark = self._stream.record_event()
        if overwritten:
            model.wait_event(self._stored)
        return mark
