"""Experts: a right solution in another style; see test_unseen_solutions.py."""

import torch


# experts: a product for each token alone, and a search for each expert's tokens.
class ExpertRouter:
    def forward(self, x):
        weight = self.weight.float()
        scores = torch.stack([weight @ row.float() for row in x])
        shares = scores.softmax(dim=1)
        experts = scores.topk(self.top_k, dim=1).indices.sort(dim=1).values
        chosen = shares.gather(1, experts)
        if self.norm_topk_prob:
            chosen /= chosen.sum(dim=1, keepdim=True)
        return chosen.to(x.dtype), experts


class Experts:
    def forward(self, x, ops):
        shares, experts = self.gate(x)
        output = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            tokens, places = (experts == number).nonzero(as_tuple=True)
            if len(tokens):
                output[tokens] += expert(x[tokens], ops) * shares[tokens, places].unsqueeze(1)
        return output
