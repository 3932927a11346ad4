"""Reservations of different sizes leave gaps that no large request fits into."""

from minivllm.lessons.shown.first_fit import FirstFit


def test_free_slots_in_two_gaps_do_not_make_one_long_run():
    memory = FirstFit(80)
    assert all(
        memory.reserve(*one) for one in {"ada": 24, "bob": 16, "cleo": 24, "dan": 16}.items()
    )
    assert (memory.num_free, memory.longest_run) == (0, 0)
    memory.free("bob")
    memory.free("dan")
    assert (memory.num_free, memory.longest_run) == (32, 16)
    assert not memory.reserve("eve", 24)
    assert memory.num_free == 32, "a refused reservation takes nothing"
    assert memory.drawn() == "aaaaaa····cccccc····"


def test_the_first_gap_that_is_long_enough_is_taken():
    memory = FirstFit(80)
    for name, size in {"ada": 8, "bob": 16, "cleo": 8, "dan": 24}.items():
        memory.reserve(name, size)
    memory.free("ada")
    memory.free("bob")
    assert memory.longest_run == 24
    assert memory.reserve("eve", 12)
    assert memory.owners[:12] == ["eve"] * 12
