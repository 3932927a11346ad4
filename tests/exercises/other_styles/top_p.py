"""Row by row, with a stable sort for ties."""

import torch


def _relative_to_best(logits, params):
    rows = []
    for row, one in zip(logits.double(), params, strict=True):
        weights = torch.exp((row - row.max()) / one.temperature)
        rows.append(torch.where(weights < one.min_p, 0.0, weights))
    return torch.stack(rows)


def _kept(logits, boundary, count):
    best_first = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    ranks = torch.argsort(best_first, dim=-1)
    return ranks < count


def _count_kept(head, total, top_k, top_p):
    counts = []
    for row in range(len(head)):
        weights = head[row].tolist()
        allowed = weights[: int(top_k[row])]
        mass = sum(allowed) if int(top_k[row]) <= len(weights) else float(total[row])
        before, count = 0.0, 0
        for weight in allowed:
            if before >= float(top_p[row]) * mass:
                break
            before, count = before + weight, count + 1
        counts.append([count])
    return torch.tensor(counts, device=head.device)
