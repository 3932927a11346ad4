"""The committed recordings of the demo's scenarios open, fold, and match today's engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.lessons.scenarios.scenarios import SCENARIOS

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "docs/assets/recordings"
MAKE_RECORDINGS = ROOT / "tools/pictures/make_recordings.py"


def test_each_scenario_has_a_recording_of_a_size_that_every_clone_can_hold():
    names = {path.stem for path in RECORDINGS.glob("*.jsonl")}
    assert names == {"choice", *SCENARIOS}
    assert all(path.stat().st_size < 520_000 for path in RECORDINGS.rglob("*.jsonl"))


SCORES = {"logit", "processed_logit", "logprob", "logprobs", "running_max", "weights"}
"""Numbers that can be near 0, where only their absolute error is small."""
PROPORTIONS = {
    "probability", "tempered_probability", "final_probability", "refused_probability", "draw",
    "mass", "running_sum",
}  # fmt: skip


def require_equal(ours: object, theirs: object, place: str) -> None:
    """Require equal values, but only about equal SCORES and PROPORTIONS.

    A processor with other vector instructions adds the products of a matrix in another order. A
    logit of up to 30 then differs by up to 1e-5, and so a probability by up to 1e-5 of itself.
    Measured with ATEN_CPU_CAPABILITY=avx2 and =default in place of AVX-512: at most 7e-6 in a
    logit, and 2.2e-5 of a probability. Tokens, counts, orders and times must be equal.
    """
    name = place.rpartition(".")[2]
    assert type(ours) is type(theirs), place
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), place
        for key in ours:
            require_equal(ours[key], theirs[key], f"{place}.{key}")
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs), place
        for mine, other in zip(ours, theirs, strict=True):
            require_equal(mine, other, place)
    elif isinstance(ours, float) and name in SCORES | PROPORTIONS:
        absolute = 2e-5 if name in SCORES else 0.0
        assert ours == pytest.approx(theirs, rel=1e-4, abs=absolute, nan_ok=True), place
    else:
        assert ours == theirs, place


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SCENARIOS, "policies", "x-ray", "choice"])
def test_a_committed_recording_is_what_the_engine_does_today(name, tmp_path):
    """If a change is intended, run tools/pictures/make_recordings.py."""
    command = [sys.executable, MAKE_RECORDINGS, "--out", tmp_path, "--scenario", name]
    subprocess.run(command, check=True, capture_output=True)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.jsonl"))
    assert len(made) == (2 if name == "policies" else 1)
    for path in made:
        ours, theirs = (
            [json.loads(line) for line in (folder / path).read_text().splitlines()]
            for folder in (tmp_path, RECORDINGS)
        )
        assert len(ours) == len(theirs)
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
            require_equal(mine, other, f"{path}, line {number}")
