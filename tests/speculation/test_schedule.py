"""Drafts in a plan: they take what is left, and what was wrong is rolled back."""

import random

from support.engine.engine_fakes import WatchedEngine, expected_output, next_token, prompt
from support.engine.random_histories import SeerWithErrors

from minivllm.core.request import Sequence
from minivllm.events import types as ev
from minivllm.speculation.drafter import LONGEST_PAUSE, DraftLengths
from minivllm.speculation.proposers import Draft

SEEN = {"method": "draft_model", "model": "fake", "num_speculative_tokens": 4}


class Seer(SeerWithErrors):
    """Always proposes the wanted number of tokens; those at a position in `wrong` are wrong."""

    def __init__(self, *wrong: int) -> None:
        super().__init__(random.Random(0), 0.0)
        self.wrong = wrong

    def _propose(self, sequence: Sequence, num_tokens: int) -> Draft:
        token_ids = list(sequence.token_ids)
        for _ in range(num_tokens):
            right = next_token(token_ids, 99, sequence.index)
            is_wrong = len(token_ids) in self.wrong
            token_ids.append((right + 1) % 99 if is_wrong else right)
        return Draft(token_ids[sequence.num_tokens :], "draft_model")


def engine_with(*wrong: int, **options: object) -> WatchedEngine:
    return WatchedEngine(**{"proposer": Seer(*wrong), "speculative_config": SEEN, **options})


def ended(max_tokens: int, *wrong: int, **options: object) -> WatchedEngine:
    """An engine that has answered one request, `a`, with a prompt of six tokens."""
    engine = engine_with(*wrong, **options)
    engine.add("a", prompt(6), max_tokens=max_tokens)
    engine.run()
    return engine


def verified(engine: WatchedEngine) -> list[tuple[int, int]]:
    """(drafts, accepted drafts) of each verification."""
    drafts = [len(event.token_ids) for event in engine.events_of(ev.DraftProposed)]
    return [
        (number, event.num_accepted)
        for number, event in zip(drafts, engine.events_of(ev.DraftVerified), strict=True)
    ]


def test_five_tokens_a_step_when_all_drafts_are_right() -> None:
    engine = ended(max_tokens=16)
    assert engine.token_ids("a") == expected_output(prompt(6), 16)
    assert verified(engine) == [(4, 4)] * 3
    assert engine.scheduler.step == 4  # the prompt and its first token, then 3 times 5 tokens


def test_never_more_drafts_than_tokens_that_may_still_come() -> None:
    assert verified(ended(max_tokens=4)) == [(2, 2)]
    engine = ended(max_tokens=40, max_model_len=10)
    assert len(engine.token_ids("a")) == 4 and verified(engine) == [(2, 2)]


def test_drafts_take_only_the_budget_that_prompts_and_decodes_leave() -> None:
    engine = engine_with(max_num_batched_tokens=8)
    engine.add("a", prompt(4), max_tokens=30)
    engine.step()
    engine.add("b", prompt(20, 50), max_tokens=30)
    engine.step()
    assert [item.num_tokens for item in engine.fold.scheduled] == [1, 7], "a chunk comes first"
    for _ in range(3):
        engine.step()
    shares = {item.seq_id: item.num_tokens for item in engine.fold.scheduled}
    assert shares == {"a.0": 1 + 4, "b.0": 1 + 2}, "b's decode comes before a's drafts"


def test_drafts_preempt_no_sequence_and_end_where_no_block_is_free() -> None:
    engine = engine_with(num_blocks=4, block_size=4)
    engine.add("a", prompt(6), max_tokens=8)
    engine.add("b", prompt(6, 50), max_tokens=2)
    engine.step()
    engine.step()
    assert engine.fold.scheduled[0].draft_token_ids == expected_output(prompt(6), 2)[1:]
    engine.run()
    assert engine.events_of(ev.RequestPreempted) == []
    assert engine.token_ids("a") == expected_output(prompt(6), 8)


def test_drafts_that_fit_into_the_blocks_of_a_sequence_leave_the_free_block_to_another() -> None:
    engine = engine_with(num_blocks=5, block_size=4)
    engine.add("a", prompt(5), max_tokens=4)
    engine.add("b", prompt(6, 50), max_tokens=9)
    engine.step()
    engine.step()
    assert [item.num_tokens for item in engine.fold.scheduled] == [1 + 2, 1 + 4]


def test_the_proposer_forgets_a_preempted_sequence() -> None:
    """The mirror of a waiting sequence would keep the slot and the blocks of one that runs."""
    seer, forgotten = Seer(), []
    seer.forget = lambda sequence: forgotten.append(sequence.seq_id)
    engine = engine_with(num_blocks=6, block_size=4, proposer=seer)
    for name in "ab":
        engine.add(name, prompt(6), max_tokens=18)
    while not engine.events_of(ev.RequestPreempted):
        engine.step()
    assert forgotten == ["b.0"]


def test_a_text_stop_inside_a_draft_ends_the_text_there() -> None:
    tokens = expected_output(prompt(6), 12)
    text = "".join(chr(32 + token_id) for token_id in tokens)
    plain, drafted = WatchedEngine(), engine_with()
    for engine in (plain, drafted):
        engine.add("a", prompt(6), max_tokens=12, stop=[text[5:7]])
        engine.run()
        assert engine.outputs["a"].outputs[0].text == text[:5]
    assert plain.token_ids("a") == drafted.token_ids("a")


def test_a_sequence_whose_drafts_fail_drafts_less_and_less_often() -> None:
    engine = ended(300, *range(400))
    assert [drafts for drafts, _ in verified(engine)][:5] == [4, 1, 1, 1, 1]
    assert len(verified(engine)) < 12
    assert engine.token_ids("a") == expected_output(prompt(6), 300)


def test_after_failures_a_sequence_pauses_then_tries_one_draft_and_recovers() -> None:
    lengths, sequence = DraftLengths(8), object()
    assert lengths.wanted(sequence, 1, 1) == 5
    for step in range(1, 9):
        lengths.verified(sequence, step, 4, 0)
    assert lengths.wanted(sequence, 9, 1) == lengths.wanted(sequence, 8 + LONGEST_PAUSE, 1) == 0
    assert lengths.wanted(sequence, 9 + LONGEST_PAUSE, 1) == 1
    for step in range(100, 105):
        lengths.verified(sequence, step, 2, 2)
    assert lengths.wanted(sequence, 105, 1) == 6
    lengths.verified(sequence, 105, 8, 0)
    lengths.forget(sequence)
    assert lengths.wanted(sequence, 106, 1) == 5


def test_in_a_large_batch_only_likely_drafts_are_computed() -> None:
    lengths, sequence = DraftLengths(8), object()
    assert lengths.wanted(sequence, 1, num_rows=1) == 5  # 0.8, ..., 0.33, then 0.26
    assert lengths.wanted(sequence, 1, num_rows=16) == 3  # 0.8, 0.64, 0.512, then 0.41
    engine = engine_with()
    for name in "abcd":
        engine.add(name, prompt(4), max_tokens=30)
    engine.step()
    engine.step()
    # The drafts before those of a sequence are rows, too: 4, 8, 12 and 15.
    assert [item.num_tokens for item in engine.fold.scheduled] == [1 + 4, 1 + 4, 1 + 3, 1 + 3]
