"""Who may import whom, and which constructs have no place outside tests.

import-linter checks the layers under minivllm/, through any number of steps (pyproject.toml). It cannot
see kernels/, tui/ and lessons/, which are mapped into the package, so their rules and the finer ones are
checked here, on the syntax tree: every `import` counts, also one in a function or under TYPE_CHECKING.
What is really loaded is asked of fresh interpreters.
"""

import ast
import json
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "minivllm": "minivllm",
    "kernels": "minivllm.kernels",
    "tui": "minivllm.tui",
    "lessons": "minivllm.lessons",
}
TENSOR_LIBRARIES = ("torch", "transformers", "triton", "numpy", "tokenizers", "safetensors", "gguf")
MAX_LINES_OF_CODE_IN_CORE = 1500
MAX_SECONDS_TO_IMPORT = 0.3


@dataclass(frozen=True)
class Rule:
    """What the files of one folder may import, besides the standard library and their own package."""

    folder: str
    ours: tuple[str, ...]
    """Modules of minivllm, with all that is under them."""
    others: tuple[str, ...] | None
    """Third-party packages; None allows any."""


RULES = (
    Rule("minivllm/events", ours=("minivllm.clock", "minivllm.errors"), others=("msgspec",)),
    Rule(
        "minivllm/core",
        ours=(
            "minivllm.clock",
            "minivllm.config",
            "minivllm.errors",
            "minivllm.events",
            "minivllm.outputs",
            "minivllm.sampling_params",
        ),
        others=(),
    ),
    Rule(
        "minivllm/runtime",
        ours=(
            "minivllm.clock",
            "minivllm.config",
            # Of the core, its plain data alone: the runtime carries out plans and decides nothing.
            "minivllm.core.block_pool",
            "minivllm.core.request",
            "minivllm.core.scheduler_output",
            "minivllm.errors",
            "minivllm.kernels",
            "minivllm.outputs",
            "minivllm.sampling_params",
        ),
        others=None,
    ),
    Rule(
        "minivllm/server",
        ours=(
            "minivllm.__version__",
            "minivllm.config",
            "minivllm.engine.engine",
            "minivllm.engine.engine_thread",
            "minivllm.errors",
            "minivllm.events",
            "minivllm.engine.inputs",
            "minivllm.outputs",
            "minivllm.runtime.cpu.heap",
            "minivllm.runtime.text.tokenizer",
            "minivllm.sampling_params",
        ),
        others=("fastapi", "msgspec", "prometheus_client", "pydantic", "starlette", "uvicorn", "zmq"),
    ),
    Rule("kernels", ours=(), others=("torch", "triton")),
    Rule(
        "tui",
        ours=("minivllm.errors", "minivllm.events"),
        others=("msgspec", "prometheus_client", "rich", "textual", "zmq"),
    ),
)


def module_name(file: Path) -> str:
    """The name that a file of this repository is imported by."""
    folder, *rest = file.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGES[folder], *(part for part in rest if part != "__init__")])


def imported_modules(source: str, package: str) -> list[str]:
    """The absolute names of all modules that a file imports; `package` is what a leading dot means in it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # `from minivllm import engine` names a module, `from minivllm.engine.engine import LLMEngine` something in one.
            # Either way the longer name is at or under the module that is meant.
            found += [f"{base}.{alias.name}" for alias in node.names]
    return found


def is_under(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def breaches(source: str, file: Path, rule: Rule) -> list[str]:
    """The imports of a file that its folder's rule does not allow."""
    own_package = module_name(ROOT / rule.folder / "__init__.py")
    module = module_name(file)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for imported in imported_modules(source, package):
        top = imported.split(".")[0]
        if top == "minivllm":
            allowed = is_under(imported, (own_package, *rule.ours))
        else:
            allowed = rule.others is None or top in rule.others or top in sys.stdlib_module_names
        if not allowed:
            found.append(f"{file.relative_to(ROOT)} imports {imported}")
    return found


def forbidden_constructs(source: str) -> list[str]:
    """Checks that vanish under `python -O`, and every way of running what was meant to be data."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assert():
                found.append(f"{node.lineno}: assert")
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                found.append(f"{node.lineno}: {name}")
            case ast.Attribute(value=ast.Name(id="torch"), attr="load"):
                found.append(f"{node.lineno}: torch.load")
    found += [
        f"import of {module}"
        for module in imported_modules(source, package="")
        if module.split(".")[0] in {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
    ]
    return found


def lines_of_code(file: Path) -> int:
    """Lines that hold a token of code: no blank lines, comments or docstrings."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    docstrings = {
        line
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        # A string that stands alone: the docstring of a module, class, function or field.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    with tokenize.open(file) as stream:
        code = {
            line
            for token in tokenize.generate_tokens(stream.readline)
            if token.type not in skipped
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(code - docstrings)


def run_python(code: str, *arguments: str, cwd: Path) -> str:
    """Standard output of a fresh interpreter."""
    child = subprocess.run([sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.folder)
def test_a_folder_imports_only_what_its_rule_allows(rule: Rule) -> None:
    files = sorted((ROOT / rule.folder).rglob("*.py"))
    assert files, f"{rule.folder} has no files: a rule about nothing"
    assert [breach for file in files for breach in breaches(file.read_text(encoding="utf-8"), file, rule)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import torch",
        "import torch.nn.functional as F",
        "from torch import nn",
        "from minivllm import engine",
        "from minivllm.core.scheduler import Scheduler",
        "from .. import engine",
        "from ..core import scheduler",
        "def later():\n    import minivllm.core.scheduler",
        "if TYPE_CHECKING:\n    from minivllm.core.scheduler import Scheduler",
    ],
)
def test_the_rule_sees_an_import_however_it_is_written(line: str) -> None:
    rule = next(rule for rule in RULES if rule.folder == "minivllm/events")
    allowed = "import json\nimport msgspec\nfrom minivllm.errors import EventLogError\nfrom . import types\n"
    file = ROOT / "minivllm/events/recording/log.py"
    assert breaches(allowed, file, rule) == []
    assert len(breaches(allowed + line, file, rule)) == 1


def test_the_layers_hold_through_any_number_of_imports() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_file_checks_with_assert_or_runs_data_as_code() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {construct}"
        for folder in PACKAGES
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file.name != "visible_test.py"  # a test, which a student runs with pytest
        for construct in forbidden_constructs(file.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["assert x", "eval('1')", "exec(code)", "import pickle", "from pickle import loads", "torch.load(path)"],
)
def test_each_forbidden_construct_is_recognised(line: str) -> None:
    assert forbidden_constructs("model.eval()\nsafetensors.torch.load_file(path)\n") == []
    assert len(forbidden_constructs(line)) == 1


def test_the_core_stays_small_enough_to_read_in_an_afternoon() -> None:
    sizes = {file.name: lines_of_code(file) for file in (ROOT / "minivllm/core").glob("*.py")}
    assert sum(sizes.values()) <= MAX_LINES_OF_CODE_IN_CORE, sizes


def test_lines_of_code_are_counted_without_words_about_them(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(
        '"""A module\nof two lines."""\n\n# why\nx = (\n    1,\n)\n"""What x is."""\ny = """a\nb"""  # data\n'
    )
    assert lines_of_code(file) == 5


def test_importing_minivllm_is_quick_and_loads_no_tensor_library(tmp_path: Path) -> None:
    code = (
        "import json, sys, time; start = time.process_time(); import minivllm; "
        "print(json.dumps([time.process_time() - start, sorted(sys.modules)]))"
    )
    runs = [json.loads(run_python(code, cwd=tmp_path)) for _ in range(5)]
    assert set(runs[0][1]).isdisjoint(TENSOR_LIBRARIES)
    # Processor time, and the quickest of a few: the others say how busy this machine is.
    assert min(seconds for seconds, _ in runs) < MAX_SECONDS_TO_IMPORT


@pytest.mark.parametrize(
    "package", ["minivllm.core", "minivllm.events", "minivllm.server", "minivllm.tui", "minivllm.lessons"]
)
def test_a_package_that_is_no_tensor_code_imports_without_tensor_libraries(package: str, tmp_path: Path) -> None:
    code = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(sys.modules)]))
"""
    names, loaded = json.loads(run_python(code, package, cwd=tmp_path))
    assert names, f"{package} has no modules"
    assert set(loaded).isdisjoint(TENSOR_LIBRARIES)
