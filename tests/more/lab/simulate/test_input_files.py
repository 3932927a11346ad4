"""Files of arrivals and of step times: their formats, and one sentence for each unreadable one."""

import json
from pathlib import Path

import pytest

from minivllm.errors import SimulationError
from minivllm.lab.simulate.arrivals import Arrival, read_arrivals
from minivllm.lab.simulate.step_times import read_step_times

HEAD = "arrival,prompt_tokens,output_tokens"
POINT = {
    "num_scheduled_tokens": 4, "num_decodes": 4, "num_prefill_tokens": 0,
    "num_context_tokens": 40, "seconds": 0.02,
}  # fmt: skip


def written(folder: Path, content: object) -> Path:
    file = folder / "input"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_csv_and_json_lines_give_the_same_arrivals_in_order_from_zero(tmp_path):
    rows = f"{HEAD},prefix_group,prefix_tokens,priority\n12,8,4,,,\n10.5,40,2,docs,32,1\n"
    lines = (
        '{"arrival": 12, "prompt_tokens": 8, "output_tokens": 4}\n\n{"arrival": 10.5,'
        ' "prompt_tokens": 40, "output_tokens": 2, "prefix_group": "docs", "prefix_tokens": 32,'
        ' "priority": 1}\n'
    )
    expected = [Arrival(0.0, 40, 2, 0, 32, 1), Arrival(1.5, 8, 4)]
    assert read_arrivals(written(tmp_path, rows)) == expected
    assert read_arrivals(written(tmp_path, lines)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}\n", "contains no requests"),
        ("when,how long\n1,2\n", "line 2: Object missing required field `arrival`"),
        (f"{HEAD}\n0,8,2\nsoon,8,2\n", r"line 3: Expected `float`, got `str` - at `\$.arrival`"),
        (f"{HEAD}\n0,8,2,7\n", "line 2: it has more fields"),
        (
            f"{HEAD},prefix_group,prefix_tokens\n0,8,2,a,9\n",
            r"line 2: prefix_tokens \(9\) must be from 1 to prompt_tokens \(8\)",
        ),
        ('{"arrival": 0, "prompt_tokens": 8, "output_tokens": 2}\n{"arr', "line 2: .* truncated"),
    ],
)
def test_a_file_without_readable_requests_gives_one_sentence(tmp_path, text, message):
    with pytest.raises(SimulationError, match=message) as error:
        read_arrivals(written(tmp_path, text))
    assert "\n" not in str(error.value)


def test_the_whole_output_of_the_bench_is_read_as_well_as_its_last_line(tmp_path):
    line = json.dumps({"points": [POINT], "model": "smollm2", "versions": {"torch": "2.13"}})
    for content in (line, f"a table\n| with | bars |\n{line}\n"):
        times = read_step_times(written(tmp_path, content))
        assert [point.num_context_tokens for point in times.points] == [40]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON here", "no measured steps .*malformed"),
        ({"results": []}, "missing required field `points`"),
        ({"points": [POINT, {**POINT, "seconds": 0}]}, r"> 0.0 - at `\$.points\[1\].seconds`"),
        ({"points": [{**POINT, "num_decodes": 1.5}]}, "Expected `int`, got `float`"),
    ],
)
def test_an_invalid_file_of_step_times_gives_one_sentence(tmp_path, content, message):
    with pytest.raises(SimulationError, match=message) as error:
        read_step_times(written(tmp_path, content))
    assert "minivllm bench step --json > FILE" in str(error.value) and "\n" not in str(error.value)
