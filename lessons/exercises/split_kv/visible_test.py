"""The README's examples as tests, for `pytest visible_test.py`."""

import math

import torch
from partial import attend_in_steps, merge

ROWS = slice(0, 1)


def part(values):
    """One query over keys that all score 1."""
    value = torch.tensor(values).view(1, 1, -1, 1)
    return attend_in_steps(torch.ones(1, 1, 1, 1), torch.ones_like(value), value, scale=1.0)


def test_a_part_says_how_much_weight_it_has():
    output, log_sum_exp = part([10.0, 20.0])
    assert abs(output.item() - 15) < 1e-4
    assert abs(log_sum_exp.item() - math.log(2 * math.e)) < 1e-4


def test_two_parts_are_merged_by_their_weight():
    (output, lse), (other, other_lse) = part([10.0, 20.0]), part([90.0])
    output, lse = output.view(1, 1, 1), lse.view(1, 1)
    merge(output, lse, ROWS, other.view(1, 1, 1), other_lse.view(1, 1))
    assert abs(output.item() - 40) < 1e-3
    assert abs(lse.item() - math.log(3 * math.e)) < 1e-4


def test_large_scores_do_not_overflow():
    output, lse = torch.tensor([[[1.0]]]), torch.tensor([[200.0]])
    merge(output, lse, ROWS, torch.tensor([[[3.0]]]), torch.tensor([[200.0]]))
    assert abs(output.item() - 2) < 1e-4
    assert abs(lse.item() - 200 - math.log(2)) < 1e-3


def test_a_row_that_is_not_named_stays():
    output, lse = torch.zeros(2, 1, 1), torch.zeros(2, 1)
    merge(output, lse, torch.tensor([1]), torch.ones(1, 1, 1), torch.zeros(1, 1))
    assert output.flatten().tolist() == [0.0, 0.5]
