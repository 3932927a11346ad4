"""The README's examples as tests, for `pytest visible_test.py`."""

import torch
from scale_rows import scale_rows


def scaled(x, factors):
    """Return x with each row multiplied by its factor, computed by the kernel."""
    room = torch.full((len(x) + 1, x.shape[1] + 8), -1.0)
    out = room[: len(x), : x.shape[1]]
    scale_rows(x, factors, out)
    out = out.clone()
    room[: len(x), : x.shape[1]] = -1.0
    assert (room == -1.0).all(), "something outside of `out` was overwritten"
    return out


def test_the_example():
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    expected = torch.tensor([[10.0, 20.0, 30.0], [8.0, 10.0, 12.0]])
    assert torch.equal(scaled(x, torch.tensor([10.0, 2.0])), expected)


def test_a_row_of_several_chunks():
    x = torch.arange(33.0).view(3, 11)
    factors = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(scaled(x, factors), x * factors[:, None])


def test_a_part_of_a_larger_tensor():
    x = torch.arange(60.0).view(3, 20)[:, :5]
    factors = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(scaled(x, factors), x * factors[:, None])
