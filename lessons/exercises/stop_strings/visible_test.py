"""The README's examples as tests, for `pytest visible_test.py`."""

from stop_strings import StopStringChecker


def test_a_stop_string_in_two_pieces_is_found_and_no_part_of_it_is_shown():
    checker = StopStringChecker(["END"])
    shown = [checker.feed(piece).text for piece in ("The E", "agle", " EN")]
    assert shown == ["The ", "Eagle", " "]
    last = checker.feed("Ds here")
    assert (last.text, last.stop) == ("", "END")


def test_a_character_that_does_not_fit_may_still_begin_another_one():
    checker = StopStringChecker(["aab"])
    assert checker.feed("aaa").text == "a"
    assert checker.feed("b").stop == "aab"


def test_the_first_one_that_is_complete_decides():
    check = StopStringChecker(["abcd", "bc"]).feed("abcd")
    assert (check.text, check.stop) == ("a", "bc")


def test_a_stop_string_can_be_part_of_the_output():
    assert (
        StopStringChecker(["END"], include_stop_str_in_output=True).feed("The END.").text
        == "The END"
    )


def test_at_another_end_all_is_shown():
    checker = StopStringChecker(["END"])
    assert checker.feed("The EN").text == "The "
    assert checker.finish("...").text == "EN..."


def test_the_last_piece_may_complete_a_stop_string():
    checker = StopStringChecker(["END"])
    checker.feed("The EN")
    check = checker.finish("D.")
    assert (check.text, check.stop) == ("", "END")
