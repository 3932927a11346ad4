"""Stop strings: any split of the text into pieces gives the same text and the same stop."""

from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.engine.stop_strings import StopStringChecker

# Two letters make overlaps and near misses common.
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4)
PIECES = st.lists(st.text("abc", max_size=6), max_size=12)


def cut(text: str, stops: list[str], include: bool, armed_from: int) -> tuple[str, str | None]:
    """The obvious answer: try every end from left to right, and the stop strings in order."""
    for end in range(max(armed_from + 1, 1), len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return text[: end if include else end - len(stop)], stop
    return text, None


@given(PIECES, STOPS, st.booleans(), st.integers(0, 4))
@settings(max_examples=150)
def test_streamed_text_equals_the_whole_text_cut_once(pieces, stops, include, num_unarmed):
    """The first `num_unarmed` pieces may not stop."""
    checker, shown = StopStringChecker(stops, include), ""
    for number, piece in enumerate(pieces):
        check = checker.feed(piece, may_stop=number >= num_unarmed)
        shown += check.text
        if check.stop is not None:
            break
    else:
        check = checker.finish()
        shown += check.text
    armed_from = len("".join(pieces[:num_unarmed]))
    assert (shown, check.stop) == cut("".join(pieces), stops, include, armed_from)


@given(PIECES, STOPS)
@settings(max_examples=100)
def test_exactly_the_longest_beginning_of_a_stop_string_is_held_back(pieces, stops):
    checker = StopStringChecker(stops)
    fed = shown = ""
    for piece in pieces:
        check = checker.feed(piece)
        fed, shown = fed + piece, shown + check.text
        if check.stop is not None:
            return
        beginnings = {stop[:k] for stop in stops for k in range(1, len(stop))}
        longest = max((len(b) for b in beginnings if fed.endswith(b)), default=0)
        assert shown == fed[: len(fed) - longest]
        assert longest <= max(len(stop) for stop in stops) - 1


@given(PIECES, STOPS, st.booleans(), st.booleans())
def test_the_last_piece_can_complete_a_stop_string_as_any_other(pieces, stops, include, may_stop):
    checker = StopStringChecker(stops, include)
    before, last = "".join(pieces[:-1]), "".join(pieces[-1:])
    shown = checker.feed(before, may_stop=False).text
    check = checker.finish(last, may_stop=may_stop)
    armed_from = len(before) if may_stop else len(before + last)
    assert (shown + check.text, check.stop) == cut(before + last, stops, include, armed_from)


def test_of_an_ignored_stop_string_only_what_may_begin_the_next_one_is_held_back():
    checker = StopStringChecker(["###"])
    assert checker.feed("Hi ###", may_stop=False).text == "Hi #"
    assert checker.feed("#").stop == "###"


def test_of_two_stop_strings_that_one_character_completes_the_first_in_the_list_counts():
    assert StopStringChecker(["##", "a##"]).feed("a##").stop == "##"
    assert StopStringChecker(["a##", "##"]).feed("a##").stop == "a##"
