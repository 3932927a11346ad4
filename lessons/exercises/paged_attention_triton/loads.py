"""The addresses that each program of an interpreted kernel loads.

A key that is read and then masked changes no number, so the result does not show the read. On a GPU
it is useless traffic, or an invalid address. If Triton compiles the kernel, nothing is recorded and
nothing is found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minivllm import kernels

Program = tuple[int, int]


class Loads:
    """Loaded addresses, by program (sequence, query head)."""

    def __init__(self) -> None:
        self.addresses: dict[Program, set[int]] = {}

    def strange(self, inputs: dict[str, Any]) -> Iterator[str]:
        """Yield a line for each program that reads foreign data.

        inputs: the arguments of the recorded launch
        """
        group = inputs["query"].shape[1] // inputs["key_cache"].shape[2]
        size = inputs["key_cache"].shape[1]
        names = {
            int(address): name
            for name in ("query", "key_cache", "value_cache", "block_tables", "seq_lens")
            for address in _addresses(inputs[name]).flatten()
        }
        for (seq, head), addresses in sorted(self.addresses.items()):
            length = int(inputs["seq_lens"][seq])
            table = inputs["block_tables"][seq, : -(-length // size)].tolist()
            own = set(_addresses(inputs["seq_lens"])[seq : seq + 1].tolist())
            if length:
                own |= set(_addresses(inputs["query"])[seq, head].tolist())
                own |= set(_addresses(inputs["block_tables"])[seq, : len(table)].tolist())
            for name in ("key_cache", "value_cache"):
                tokens = _addresses(inputs[name])[table, :, head // group].reshape(
                    -1, inputs[name].shape[3]
                )[:length]
                own |= set(tokens.flatten().tolist())
            for name in sorted({names.get(address, "no tensor") for address in addresses - own}):
                yield (f"program ({seq}, {head}), {length} tokens, reads foreign addresses: {name}")


def _addresses(tensor: Any) -> np.ndarray:
    steps = [
        np.arange(length) * stride
        for length, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return tensor.data_ptr() + tensor.element_size() * sum(np.ix_(*steps))


@contextmanager
def recorded_loads() -> Iterator[Loads]:
    """Record the loads of kernels that run in this context."""
    loads = Loads()
    if not kernels.INTERPRETED:
        yield loads
        return
    builder = kernels.interpreter_builder
    load = builder.create_masked_load

    def create_masked_load(pointers: Any, mask: Any, *rest: Any) -> Any:
        # A mask that was computed with `&` may hold 0 and 1, which would be indices here.
        wanted = np.broadcast_to(mask.data, pointers.data.shape).astype(bool)
        loads.addresses.setdefault(builder.grid_idx[:2], set()).update(
            pointers.data[wanted].tolist()
        )
        return load(pointers, mask, *rest)

    builder.create_masked_load = create_masked_load
    try:
        yield loads
    finally:
        del builder.create_masked_load
