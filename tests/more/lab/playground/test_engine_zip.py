"""engine.zip is what the browser gets: here it runs with nothing else but msgspec."""

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
answer = getattr(browser, sys.argv[2])(*([sys.stdin.read()] if sys.argv[3] == "1" else []))
foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps({"answer": json.loads(answer), "foreign": sorted(foreign)}))
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip, with msgspec beside it."""
    folder = tmp_path_factory.mktemp("engine")
    load_tool("site/playground_files.py").write_engine(folder / "engine.zip")
    with zipfile.ZipFile(folder / "engine.zip") as archive:
        archive.extractall(folder / "files")
    (folder / "files/msgspec").symlink_to(Path(msgspec.__file__).parent)
    return folder / "files"


def ask(engine: Path, tmp_path: Path, call: str, argument: str | None = None) -> Any:
    command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, str(engine), call]
    run = subprocess.run(
        [*command, "0" if argument is None else "1"],
        input=argument or "",
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert set(said["foreign"]) <= {"__main__", "minivllm", "msgspec"}
    return said["answer"]


def test_every_trace_runs_without_torch_and_without_numpy(engine, tmp_path, traces):
    for trace in traces.values():
        question = json.dumps({"run": trace["run"], "options": {"block_size": 16}})
        sides = ask(engine, tmp_path, "play_text", question)
        assert sides["original"]["figures"] == sides["yours"]["figures"]
        assert sides["original"]["figures"]["steps"] > 50


def test_the_readers_code_runs_in_the_zip(engine, tmp_path, traces):
    methods = ask(engine, tmp_path, "methods")
    method = next(one for one in methods if one["name"] == "FCFSRequestQueue.choose_victim")
    text = method["source"].replace("running[-1]", "running[0]")
    assert text != method["source"]
    question = {
        "run": traces["memory-pressure"]["run"],
        "edit": {"module": method["module"], "name": method["name"], "text": text},
    }
    sides = ask(engine, tmp_path, "play_text", json.dumps(question))
    assert sides["original"]["recording"] != sides["yours"]["recording"]
    assert "error" not in sides["yours"]


def test_the_zip_has_every_exercise_that_needs_no_tensors(engine, tmp_path):
    names = [exercise["name"] for exercise in ask(engine, tmp_path, "exercises")]
    assert len(names) == 28
    assert {"lru", "block-table", "token-budget", "preemption", "verify-drafts"} <= set(names)
    assert not {"paged-attention", "split-kv", "triton-warmup", "top-p"} & set(names)


def test_an_exercise_is_checked_without_a_process(engine, tmp_path):
    start = ask(engine, tmp_path, "exercise_text", "slot-mapping")
    assert "# TODO slot-mapping" in start["text"]
    question = {"name": "slot-mapping", "text": start["text"]}
    untouched = ask(engine, tmp_path, "check_text", json.dumps(question))
    assert untouched["untouched"] and not untouched["passed"]


def test_the_zip_is_small_and_has_no_solutions_of_students(engine):
    files = [file.relative_to(engine) for file in engine.rglob("*") if file.is_file()]
    assert [file for file in files if "wrong" in file.parts and file.suffix == ".py"] == []
    size = sum((engine / file).stat().st_size for file in files if file.parts[0] == "minivllm")
    assert size < 2 << 20
