"""A letter means one sequence at a time; an ended sequence keeps it until it is reused."""

from hypothesis import given
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


def test_a_name_gets_its_own_initial_and_its_second_sample_the_capital() -> None:
    letters = Letters()
    for seq_id in ("cleo.0", "ada.0", "ada.1", "ada.2", "ben.0", "amy.0", "user-1.0"):
        letters.assign(seq_id)
    assert [letters.of(one) for one in ("cleo.0", "ada.0", "ada.1", "ben.0")] == [*"caAb"]
    # More samples of ada leave the other names their initials.
    assert letters.of("ada.2") == "Z"
    # For a taken initial, or a name that is only a number, the next letters are used in turn.
    assert [letters.of("amy.0"), letters.of("user-1.0")] == ["d", "e"]


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(0, 3)),
        max_size=200,
    )
)
def test_live_sequences_have_different_letters_and_colours_while_they_last(
    turns: list,
) -> None:
    letters = Letters()
    for comes, name, index in turns:
        seq_id, before = f"{name}.{index}", {letters.hue(letters.of(one)) for one in letters.live}
        is_new = comes and seq_id not in letters.live
        letters.assign(seq_id) if comes else letters.release(seq_id)
        if is_new and len(before) < NUM_HUES and letters.of(seq_id) != NO_LETTER:
            assert letters.hue(letters.of(seq_id)) not in before
        held = [letter for one in letters.live if (letter := letters.of(one)) != NO_LETTER]
        assert None not in held and len(held) == len(set(held))
        assert letters.num_free == len(ALPHABET) - len(held)
    assert letters.hue(NO_LETTER) == "muted"
