"""A letter stands for one sequence at a time, and for an ended one only until another gets it."""

from hypothesis import given
from hypothesis import strategies as st

from minivllm.tui.state.letters import ALPHABET, NO_LETTER, NUM_HUES, Letters


def test_letters_are_given_in_order_and_kept() -> None:
    letters = Letters()
    for seq_id in ("r0.0", "r1.0", "r0.0"):
        letters.assign(seq_id)
    assert [letters.of("r0.0"), letters.of("r1.0")] == ["a", "b"]
    assert letters.of("r2.0") is None
    assert letters.of(None) is None


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


def test_more_live_sequences_than_letters_share_a_sign_that_is_no_letter() -> None:
    letters = Letters()
    for number in range(len(ALPHABET) + 1):
        letters.assign(f"s{number}")
    assert letters.of(f"s{len(ALPHABET)}") == NO_LETTER
    assert letters.hue(NO_LETTER) == letters.hue(None) == "muted"


@given(st.lists(st.tuples(st.integers(0, 80), st.booleans())))
def test_two_live_sequences_never_have_the_same_letter(steps: list[tuple[int, bool]]) -> None:
    letters, live = Letters(), set()
    for number, enters in steps:
        seq_id = f"s{number}"
        if enters:
            letters.assign(seq_id)
            live.add(seq_id)
        else:
            letters.release(seq_id)
            live.discard(seq_id)
        held = [letter for seq_id in live if (letter := letters.of(seq_id)) != NO_LETTER]
        assert None not in held
        assert len(held) == len(set(held))


def test_a_name_gets_its_own_initial_and_its_second_sample_the_capital() -> None:
    letters = Letters()
    for seq_id in ("cleo.0", "ada.0", "ada.1", "ada.2", "ben.0", "amy.0", "user-1.0"):
        letters.assign(seq_id)
    assert [letters.of(seq_id) for seq_id in ("cleo.0", "ada.0", "ada.1", "ben.0")] == ["c", "a", "A", "b"]
    # More samples of ada leave the other names their initials.
    assert letters.of("ada.2") == "Z"
    # An initial that is taken, and a name that is only a number, have the next letters in turn.
    assert [letters.of("amy.0"), letters.of("user-1.0")] == ["d", "e"]


def test_an_initial_that_still_marks_the_blocks_of_an_ended_request_is_not_taken_away() -> None:
    letters = Letters()
    letters.assign("ada.0")
    letters.release("ada.0")
    letters.assign("amy.0")
    assert [letters.of("ada.0"), letters.of("amy.0")] == ["a", "b"]


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefghijklmnopqrstuvwxyz"), st.integers(0, 2)), max_size=200)
)
def test_live_sequences_share_a_colour_only_when_all_colours_are_taken(turns: list[tuple[bool, str, int]]) -> None:
    letters = Letters()
    for comes, name, index in turns:
        seq_id = f"{name}.{index}"
        if not comes:
            letters.release(seq_id)
            continue
        before = [letters.hue(letters.of(one)) for one in letters.live if one != seq_id]
        is_new = seq_id not in letters.live
        letters.assign(seq_id)
        if is_new and len(set(before)) < NUM_HUES and letters.of(seq_id) != NO_LETTER:
            assert letters.hue(letters.of(seq_id)) not in before


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90)), max_size=400))
def test_the_number_of_free_letters_is_what_counting_them_gives(turns: list[tuple[bool, int]]) -> None:
    letters = Letters()
    for comes, number in turns:
        letters.assign(f"r{number}.0") if comes else letters.release(f"r{number}.0")
        taken = [letter for letter, holder in letters.holders.items() if holder in letters.live]
        assert letters.num_free == len(ALPHABET) - len(taken)
        # Whoever came while there was a free letter has one.
        assert len([seq_id for seq_id in letters.live if seq_id in letters.given]) == len(taken)
