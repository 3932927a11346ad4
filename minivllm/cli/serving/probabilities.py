"""`generate --logprobs`: how likely each token was, for the model and in its draw.

An output has only the model's probabilities. Those after temperature, penalties and cuts, from
which the token was drawn, are in the event `token.explained`.
"""

import json
import math
from collections import defaultdict

from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.outputs import CompletionOutput, Logprob, RequestOutput

_HEADER = (
    "    (the model's probability > the one after temperature, penalties and cuts: the draw's)\n"
)


class Probabilities:
    """Remembers the draws of an engine, if it has `explain_tokens`."""

    def __init__(self, engine: LLMEngine) -> None:
        self._draws: dict[str, list[ev.TokenExplained]] = defaultdict(list)
        if engine.config.explain_tokens:
            engine.subscribe(self._apply)

    def _apply(self, event: ev.Event) -> None:
        if isinstance(event, ev.TokenExplained):
            self._draws[event.seq_id].append(event)

    def describe(self, output: RequestOutput, text: CompletionOutput) -> str:
        """Return a line for each token of `text`: its probability, and those of others."""
        draws = self._draws_of(output.request_id, text.token_ids)
        rows = []
        for number, (token_id, likely) in enumerate(
            zip(text.token_ids, text.logprobs or (), strict=False)
        ):
            draw = draws[number] if draws else {}
            shown = {one: _percent(token, draw.get(one)) for one, token in likely.items()}
            others = [f"{_quoted(likely[one])} {shown[one]}" for one in likely if one != token_id]
            rows.append((likely[token_id], shown[token_id], ", ".join(others)))
        width = max((len(shown) for _, shown, _ in rows), default=0)
        lines = [
            f"    {_quoted(token):<16} {shown:>{width}}  rank {token.rank:<4}"
            + (f"  others: {others}\n" if others else "\n")
            for token, shown, others in rows
        ]
        return "".join([_HEADER] * any(">" in shown for _, shown, _ in rows) + lines)

    def _draws_of(self, request_id: str, token_ids: list[int]) -> list[dict[int, float]]:
        """Return token id -> probability for each draw of a text; empty if it was not drawn."""
        # With `best_of`, the index of a text is not that of its sequence.
        for seq_id, events in self._draws.items():
            drawn = [event.token_id for event in events]
            if seq_id.rpartition(".")[0] == request_id and drawn == token_ids:
                return [
                    {one.token_id: one.final_probability for one in event.candidates}
                    for event in events
                ]
        return []


def _percent(token: Logprob, drawn: float | None) -> str:
    """Write the model's probability and, if it differs, the one in the draw."""
    numbers = [math.exp(token.logprob)] if drawn is None else [math.exp(token.logprob), drawn]
    return " > ".join(dict.fromkeys(f"{number:.1%}" for number in numbers))


def _quoted(token: Logprob) -> str:
    """Quote a token, so that spaces and line ends are visible."""
    return json.dumps(token.decoded_token, ensure_ascii=False)
