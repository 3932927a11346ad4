"""What every bench shares: percentiles, the JSON line, and where it ran."""

import argparse
import json
import os
import subprocess
import sys

import pytest

from minivllm.lab.common.environment import cpu_model, describe_environment
from minivllm.lab.common.report import nearest_rank, positive_int, print_report


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([5.0], 99, 5.0), ([3.0, 1.0, 2.0], 50, 2.0), (range(1, 101), 99, 99), (range(1, 201), 99, 198), ([1, 2], 0, 1)],
)
def test_a_percentile_is_the_value_of_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert nearest_rank(values, percent) == expected


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_a_count_that_is_no_positive_whole_number_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        positive_int(text)


def test_with_json_standard_output_is_one_object_and_the_table_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = {"text": "x" * 500, "number": 1.5}
    print_report("Title", ("what", "value"), [("row", "17")], ["A note."], long, as_json=True)
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1 and json.loads(captured.out) == long
    assert "Title" in captured.err and "17" in captured.err and "A note." in captured.err


def test_without_json_there_are_only_words_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_report("Title", ("what", "value"), [("row", "17")], ["A note."], {"secret": 1}, as_json=False)
    assert "secret" not in capsys.readouterr().out


def test_the_environment_names_machine_and_versions() -> None:
    environment = describe_environment("msgspec")
    assert set(environment["versions"]) == {"python", "minivllm", "msgspec"}
    assert environment["machine"]["cpu"] == cpu_model() != ""
    assert environment["machine"]["cores"] == os.cpu_count()


def test_peak_memory_is_this_process_own_and_remembers_what_was_given_back() -> None:
    code = """
from minivllm.lab.common.environment import peak_rss_bytes
before = peak_rss_bytes()
held = bytearray(b"x") * 100_000_000
del held
print(before, peak_rss_bytes())
"""
    # A parent with 200 MB must not show in its small child.
    held = bytearray(b"x") * 200_000_000
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    del held
    before, after = map(int, child.stdout.split())
    assert 5_000_000 < before < 150_000_000
    assert 90_000_000 < after - before < 150_000_000
