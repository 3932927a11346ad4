"""Arrivals from files: both formats, and unreadable ones."""

from pathlib import Path

import pytest

from minivllm.errors import SimulationError
from minivllm.lab.simulate.arrival_file import read_arrivals
from minivllm.lab.simulate.workload import Arrival


def written(folder: Path, text: str) -> Path:
    file = folder / "arrivals"
    file.write_text(text)
    return file


def test_csv_and_json_lines_give_the_same_arrivals(tmp_path):
    rows = (
        "arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority\n"
        "12,8,4,,,\n"
        "10.5,40,2,docs,32,1\n"
    )
    lines = (
        '{"arrival": 12, "prompt_tokens": 8, "output_tokens": 4}\n\n{"arrival": 10.5,'
        ' "prompt_tokens": 40, "output_tokens": 2, "prefix_group": "docs", "prefix_tokens": 32,'
        ' "priority": 1}\n'
    )
    # In order of arrival; the first arrives at 0.
    expected = [Arrival(0.0, 40, 2, 0, 32, 1), Arrival(1.5, 8, 4)]
    assert read_arrivals(written(tmp_path, rows)) == expected
    assert read_arrivals(written(tmp_path, lines)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arrival,prompt_tokens,output_tokens\n", "contains no requests"),
        ("when,how long\n1,2\n", "has no column arrival, prompt_tokens, output_tokens"),
        (
            "arrival,prompt_tokens,output_tokens\n0,8,2\nsoon,8,2\n",
            "line 3: arrival must be a number; got 'soon'",
        ),
        (
            "arrival,prompt_tokens,output_tokens\n0,8,2,7\n",
            "line 2: it has more fields",
        ),
        (
            "arrival,prompt_tokens,output_tokens,prefix_group\n0,8,2,a\n",
            "line 2: prefix_tokens must be a number",
        ),
        (
            "arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens\n0,8,2,a,9\n",
            r"line 2: prefix_tokens \(9\) must not exceed prompt_tokens \(8\)",
        ),
        (
            '{"arrival": 0, "prompt_tokens": 8, "output_tokens": 2}\n{"arr',
            "line 2: this is not JSON",
        ),
    ],
)
def test_a_file_without_readable_requests_gives_one_sentence(tmp_path, text, message):
    with pytest.raises(SimulationError, match=message) as error:
        read_arrivals(written(tmp_path, text))
    assert "\n" not in str(error.value)
