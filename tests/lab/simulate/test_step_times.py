"""Files of step times: output of `bench step --json`, and invalid ones."""

import json
from pathlib import Path

import pytest

from minivllm.errors import SimulationError
from minivllm.lab.simulate.fit import fit_step_times
from minivllm.lab.simulate.step_times import read_step_times

GOOD = {
    "num_scheduled_tokens": 4,
    "num_decodes": 4,
    "num_prefill_tokens": 0,
    "num_context_tokens": 40,
    "seconds": 0.02,
}


def written(folder: Path, content: object) -> Path:
    file = folder / "steps.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_the_whole_output_of_the_bench_is_read_as_well_as_its_last_line(tmp_path):
    line = json.dumps({"points": [GOOD], "model": "smollm2", "versions": {"torch": "2.13"}})
    for content in (line, f"a table\n| with | bars |\n{line}\n"):
        times = read_step_times(written(tmp_path, content))
        assert len(times.points) == 1 and times.points[0].num_context_tokens == 40
        assert times.label == "smollm2, torch 2.13"


def test_the_shipped_step_times_are_labelled_and_can_be_fitted():
    times = read_step_times(None)
    assert "smollm2" in times.label and "torch" in times.label
    assert fit_step_times(times.points).quality.median_relative_error < 0.25


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON here", "is not JSON"),
        ({"results": []}, 'no list "points"'),
        ({"points": [GOOD, {**GOOD, "seconds": 0}]}, "Point 2 .* seconds above 0"),
        ({"points": [{**GOOD, "num_decodes": 1.5}]}, "Point 1 .* whole numbers"),
    ],
)
def test_an_invalid_file_of_step_times_gives_one_sentence(tmp_path, content, message):
    with pytest.raises(SimulationError, match=message) as error:
        read_step_times(written(tmp_path, content))
    assert "minivllm bench step --json > FILE" in str(error.value) and "\n" not in str(error.value)
