"""Parts that all benches share: percentiles, the JSON line, and the machine."""

import json

import pytest

from minivllm.lab.common.report import print_report
from minivllm.lab.common.statistics import nearest_rank


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([5.0], 99, 5.0), ([3.0, 1.0, 2.0], 50, 2.0), (range(1, 201), 99, 198), ([1, 2], 0, 1)],
)
def test_a_percentile_is_the_value_of_nearest_rank(values, percent, expected):
    assert nearest_rank(values, percent) == expected


def test_with_json_standard_output_is_one_object_and_the_table_goes_to_standard_error(capsys):
    long = {"text": "x" * 500, "number": 1.5}
    print_report("Title", ("what", "value"), [("row", "17")], ["A note."], long, as_json=True)
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1 and json.loads(captured.out) == long
    assert "Title" in captured.err and "17" in captured.err and "A note." in captured.err
