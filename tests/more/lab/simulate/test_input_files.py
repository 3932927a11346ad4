"""Files of arrivals and of step times: their formats, and one sentence for each unreadable one."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from minivllm.errors import SimulationError
from minivllm.lab.simulate.arrivals import Arrival, read_arrivals
from minivllm.lab.simulate.step_times import read_step_times

HEAD = "arrival,prompt_tokens,output_tokens"
POINT = {"num_scheduled_tokens": 4, "num_decodes": 4, "num_context_tokens": 40, "seconds": 0.02}


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "input"


def test_arrivals_are_read_in_order_from_zero(file):
    expected = [Arrival(0.0, 40, 2, 0, 32, 1), Arrival(1.5, 8, 4)]
    file.write_text(f"{HEAD},prefix_group,prefix_tokens,priority\n12,8,4,,,\n10.5,40,2,x,32,1\n")
    assert read_arrivals(file) == expected
    late, early = (msgspec.json.encode(replace(each, at=each.at + 9)) for each in expected[::-1])
    file.write_bytes(late + b"\n\n" + early)
    assert read_arrivals(file) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{HEAD}\n", "contains no requests"),
        (f"{HEAD}\n0,8,2\nsoon,8,2\n", "line 3"),
        (f"{HEAD}\n0,8,2,7\n", "line 2"),
        (f"{HEAD},prefix_group,prefix_tokens\n0,8,2,a,9\n", "line 2: prefix_tokens"),
        ('{"arrival": 0, "prompt_tokens": 8, "output_tokens": 2}\n{"arr', "line 2"),
    ],
)
def test_a_file_without_readable_requests_gives_one_sentence(file, text, message):
    file.write_text(text)
    with pytest.raises(SimulationError, match=message) as error:
        read_arrivals(file)
    assert "\n" not in str(error.value)


def test_the_whole_output_of_the_bench_is_read_as_well_as_its_last_line(file):
    line = json.dumps({"points": [POINT], "model": "smollm2", "versions": {"torch": "2.13"}})
    for content in (line, f"a table\n| with | bars |\n{line}\n"):
        file.write_text(content)
        assert [point.num_context_tokens for point in read_step_times(file).points] == [40]


@pytest.mark.parametrize("content", ["no JSON here", [], {"points": [POINT | {"seconds": 0}]}])
def test_an_invalid_file_of_step_times_gives_one_sentence(file, content):
    file.write_text(json.dumps(content))
    with pytest.raises(SimulationError, match="minivllm bench step --json > FILE") as error:
        read_step_times(file)
    assert "\n" not in str(error.value)
