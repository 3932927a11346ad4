"""A scripted run in which one sequence's tokens are explained, with probabilities of its own."""

from types import SimpleNamespace

import msgspec

from minivllm.events import types as ev

OTHERS = (9_001, 9_002, 9_003)


def probability_of(position: int) -> float:
    """The model's probability of the token at a position: from 5 % to 95 %."""
    return 0.05 + position * 7 % 10 / 10


def candidates(token_id: int, position: int) -> tuple[ev.TokenCandidate, ...]:
    """The winner, a second one, one that top-p cut and one that is masked."""
    share = probability_of(position)
    rest = (1 - share) / 2
    second, cut, masked = OTHERS
    return (
        ev.TokenCandidate(token_id, 5.5, 5.5, share, share, 0.6, None, 0.3),
        ev.TokenCandidate(second, 5.0, 4.0, rest, rest, 0.4, None, 0.9),
        ev.TokenCandidate(cut, 4.0, 4.0, rest / 9, rest / 9, 0.0, "top_p"),
        ev.TokenCandidate(masked, 6.0, None, 0.01, 0.0, 0.0, "min_tokens"),
    )


def explaining(stage, seq_id: str) -> SimpleNamespace:
    """The header and events of `stage`, with an explanation before each token of a sequence."""
    events, num_tokens = [], 0
    cuts = (ev.SamplingCut("top_p", 0.9, 2),)
    for event in stage.events:
        if isinstance(event, ev.RequestArrived) and event.seq_id == seq_id:
            num_tokens = len(event.prompt_token_ids)
        if isinstance(event, ev.TokenSampled) and event.seq_id == seq_id:
            found = candidates(event.token_id, num_tokens)
            given = (seq_id, num_tokens, event.token_id, 0.8, 2048, 2, found, cuts)
            events.append(ev.TokenExplained(event.seq, event.step, event.t, *given))
            num_tokens += 1
        events.append(event)
    numbered = [
        msgspec.structs.replace(event, seq=stage.header.first_seq + index)
        for index, event in enumerate(events)
    ]
    return SimpleNamespace(header=stage.header, events=numbered)
