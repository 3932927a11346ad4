"""The README's examples as tests, for `pytest visible_test.py`."""

from reference import NOTHING, RegexAutomaton, bitmask

WORDS = RegexAutomaton("(yes|no)+")
VOCABULARY = [None, b"n", b"no", b"on", b"o", b"yes!"]


def test_a_text_may_end_only_behind_a_whole_word():
    assert not WORDS.may_end(WORDS.start)
    assert RegexAutomaton("a*").may_end(RegexAutomaton("a*").start)
    assert not RegexAutomaton("a*b").may_end(RegexAutomaton("a*b").start)


def test_reading_a_byte_takes_it_off_the_front():
    after = WORDS.advance(WORDS.start, b"no")
    assert WORDS.may_end(after)
    assert WORDS.advance(after, b"x") == NOTHING
    assert WORDS.advance(after, b"yes") == after


def test_a_part_that_can_be_empty_can_be_left_out():
    automaton = RegexAutomaton("a*b")
    assert automaton.may_end(automaton.advance(automaton.start, b"b"))


def test_tokens_are_read_byte_by_byte():
    assert WORDS.allowed_tokens(WORDS.start, VOCABULARY) == [1, 2]
    assert WORDS.allowed_tokens(WORDS.advance(WORDS.start, b"n"), VOCABULARY) == [3, 4]


def test_the_text_can_end_where_it_may():
    after = WORDS.advance(WORDS.start, b"no")
    assert WORDS.allowed_tokens(after, VOCABULARY, {0}) == [0, 1, 2]


def test_a_mask_has_a_bit_for_each_token():
    assert bitmask([0, 1, 2], 6) == b"\x07"
    assert bitmask([8], 9) == b"\x00\x01"
