"""A letter means one sequence at a time; an ended sequence keeps it until it is reused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.tui.state.letters import ALPHABET, NO_LETTER, NUM_HUES, Letters


def test_an_ended_sequence_keeps_its_letter_until_it_is_needed_again() -> None:
    letters = Letters()
    letters.assign("old")
    letters.release("old")
    for number in range(len(ALPHABET) - 1):
        letters.assign(f"s{number}")
        letters.release(f"s{number}")
    assert letters.of("old") == "a"
    letters.assign("new")
    assert letters.of("new") == "a"
    assert letters.of("old") is None


@pytest.mark.parametrize(
    ("seq_ids", "expected"),
    [
        # More samples of ada leave the other names their initials; then letters come in turn.
        (["cleo.0", "ada.0", "ada.1", "ada.2", "ben.0", "amy.0", "r1.0"], "caAZbde"),
        # The first numbered name gets its initial, too.
        (["ada.0", "user-1.0", "burst-4.0", "user-2.0"], "aubc"),
        # A request of the server does not take the c of chatcmpl.
        ([f"chatcmpl-{'1' * 32}-{'2' * 8}.0", "cleo.0"], "ac"),
    ],
)
def test_a_name_gets_its_initial_and_its_second_sample_the_capital(seq_ids, expected) -> None:
    letters = Letters()
    for seq_id in seq_ids:
        letters.assign(seq_id)
    assert "".join(map(letters.of, seq_ids)) == expected


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(0, 3)),
        max_size=200,
    )
)
def test_live_sequences_have_different_letters_and_colours_while_they_last(turns: list) -> None:
    letters = Letters()
    for comes, name, index in turns:
        seq_id, before = f"{name}.{index}", {letters.hue(letters.of(peer)) for peer in letters.live}
        siblings = {letters.hue(letters.of(peer)) for peer in letters.live if peer[0] == name}
        is_new = comes and seq_id not in letters.live
        letters.assign(seq_id) if comes else letters.release(seq_id)
        if is_new and len(before) < NUM_HUES and letters.of(seq_id) != NO_LETTER:
            assert letters.hue(letters.of(seq_id)) not in before - siblings
        held = [letter for peer in letters.live if (letter := letters.of(peer)) != NO_LETTER]
        assert None not in held and len(held) == len(set(held))
        assert letters.num_free == len(ALPHABET) - len(held)
    assert letters.hue(NO_LETTER) == "muted"


@settings(max_examples=20)
@given(st.lists(st.integers(0, 10**6), min_size=60, max_size=120))
def test_the_beams_of_four_users_never_have_a_colour_of_another_user(choices: list[int]) -> None:
    letters = Letters()
    beams = {user: [f"{user}.0"] for user in ("ada", "ben", "cleo", "dan")}
    for user in beams:
        letters.assign(f"{user}.0")
    for number, choice in enumerate(choices, 1):
        user = tuple(beams)[choice % 4]
        if len(beams[user]) == 8:
            letters.release(beams[user].pop(choice // 4 % 8))
        beams[user].append(f"{user}.{number}")
        letters.assign(beams[user][-1])
        colours = [{letters.hue(letters.of(peer)) for peer in live} for live in beams.values()]
        assert sum(map(len, colours)) == len(set().union(*colours))
