"""Paged attention as Triton kernels, each with its slow, obvious twin in torch; installed as `minivllm.kernels`.

Knows tensors, and nothing of sequences, schedulers or models. Nothing here needs Triton until a kernel is imported.

    reference, reference_ops          the twins: what every kernel must compute
    kv_write, rotary, norm_act        writing the cache, copying blocks, and the decoder's small operations
    online_softmax                    the loop that attention kernels share
    decode_naive -> _grouped -> _split -> _static, prefill      attention: the ladder of decode kernels, and chunks
    attention_mass                    how much of a token's attention falls on each block
    trace (from xray)                 which program reads which slots, and what its softmax is after each tile
    compile_report                    registers, spills and matrix instructions, without a GPU

The easy thing to get wrong is the name. This folder stands at the root of the repository, so a process
started there finds it as the top-level package `kernels`, and that name is Hugging Face's: `transformers`
imports a package so called where there is one. So under that name we step aside: the real package takes our
place, or, where there is none, an empty module, which is what `transformers` takes for "not installed".
"""

import sys
from typing import Any


def _give_way() -> None:
    """Put the package that should answer to `kernels` in our place; the import system hands that one out."""
    from importlib.machinery import ModuleSpec, PathFinder
    from importlib.util import module_from_spec
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    elsewhere = [folder for folder in sys.path if Path(folder).resolve() != root]  # "" is the current folder
    spec = PathFinder.find_spec("kernels", elsewhere)
    if spec is None or spec.loader is None:
        sys.modules["kernels"] = module_from_spec(ModuleSpec("kernels", loader=None))
        return
    sys.modules["kernels"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def __getattr__(name: str) -> Any:
    """`minivllm.kernels.trace`, imported with Triton when it is asked for."""
    if name == "trace":
        from minivllm.kernels.xray import trace

        return trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if __name__ == "kernels":
    _give_way()
