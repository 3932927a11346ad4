"""The README's example as tests, for `pytest visible_test.py`."""

from types import SimpleNamespace

import torch
from decoder import ExpertRouter, Experts
from torch import nn

from minivllm.runtime.model.custom_ops import TORCH_OPS

CONFIG = SimpleNamespace(
    num_experts=4, num_experts_per_tok=2, norm_topk_prob=False, hidden_size=4,
    moe_intermediate_size=8, hidden_act="silu",
)  # fmt: skip
SCORES = torch.tensor([[1.0, 2.0, 4.0, 1.0]]).log()


class Times(nn.Module):
    """An expert that multiplies by a number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x, ops):
        return x * self.number


def router(**options):
    found = ExpertRouter(SimpleNamespace(**{**vars(CONFIG), **options}))
    found.weight = nn.Parameter(torch.eye(4), requires_grad=False)
    return found


def test_the_two_largest_scores_win():
    shares, experts = router()(SCORES)
    assert experts.tolist() == [[1, 2]]
    assert torch.allclose(shares, torch.tensor([[2 / 8, 4 / 8]]))


def test_normalized_shares_have_a_sum_of_one():
    shares, _ = router(norm_topk_prob=True)(SCORES)
    assert torch.allclose(shares, torch.tensor([[1 / 3, 2 / 3]]))


def test_the_experts_results_are_added():
    layer = Experts(CONFIG)
    layer.gate = router()
    layer.experts = nn.ModuleList(map(Times, range(4)))
    found = layer(SCORES, TORCH_OPS)
    assert torch.allclose(found, SCORES * (1 * 2 / 8 + 2 * 4 / 8))
