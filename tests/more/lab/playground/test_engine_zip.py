"""engine.zip is what the browser gets: here it runs with nothing else but msgspec."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.tool_modules import load_tool

# Pyodide can start no process, and has no module `resource`.
PROGRAM = """
import json, os, sys
sys.path[:0] = [sys.argv[1]]
sys.modules["resource"] = None
del os.fork
from minivllm.lab.playground import browser
answer = getattr(browser, sys.argv[2])(*filter(None, [sys.stdin.read()]))
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps({"answer": json.loads(answer), "foreign": sorted(foreign)}))
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip, with msgspec beside it."""
    folder = tmp_path_factory.mktemp("engine")
    with zipfile.ZipFile(io.BytesIO(load_tool("site/playground_files.py").engine())) as archive:
        archive.extractall(folder / "files")
    (folder / "files/msgspec").symlink_to(Path(msgspec.__file__).parent)
    return folder / "files"


def ask(engine: Path, folder: Path, call: str, argument: Any = "") -> Any:
    command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, engine, call]
    given = argument if isinstance(argument, str) else json.dumps(argument)
    run = subprocess.run(command, input=given, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert set(said["foreign"]) <= {"__main__", "minivllm", "msgspec"}
    return said["answer"]


def test_every_trace_and_the_readers_code_run_without_torch_and_numpy(engine, tmp_path, traces):
    methods = ask(engine, tmp_path, "methods")
    method = next(entry for entry in methods if entry["name"] == "FCFSRequestQueue.choose_victim")
    text = method["source"].replace("running[-1]", "running[0]")
    edit = {"module": method["module"], "name": method["name"], "text": text}
    for trace in traces.values():
        question = {"run": trace["run"], "options": {"block_size": 16}, "edit": edit}
        sides = ask(engine, tmp_path, "play_text", question)
        assert all("error" not in side and side["figures"]["steps"] > 50 for side in sides.values())
        changed = sides["original"]["recording"] != sides["yours"]["recording"]
        assert changed or trace["name"] != "memory-pressure"


def test_an_exercise_is_checked_without_a_process_and_without_tensors(engine, tmp_path):
    names = {exercise["name"] for exercise in ask(engine, tmp_path, "exercises")}
    assert {"lru", "block-table", "token-budget", "preemption", "verify-drafts"} <= names
    assert not {"paged-attention", "split-kv", "triton-warmup", "top-p"} & names
    start = ask(engine, tmp_path, "exercise_text", "slot-mapping")
    question = {"name": "slot-mapping", "text": start["text"]}
    assert ask(engine, tmp_path, "check_text", question)["untouched"]


def test_the_zip_is_small(engine):
    files = (engine / "minivllm").rglob("*")
    assert sum(file.stat().st_size for file in files if file.is_file()) < 2 << 20
