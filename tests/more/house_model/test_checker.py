"""The checker rejects text that is broken, however little."""

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

FEW = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
SEEDS = given(seed=st.integers(0, 10_000), where=st.integers(0, 1_000))
ASK = "Tell me a story about Ada and Ben."


def story(tool, seed):
    return tool("stories").write_story(Random(seed), {"hero": "Ada", "friend": "Ben"}).text


@FEW
@SEEDS
def test_a_story_that_changes_a_name_on_the_way_is_wrong_but_grammatical(tool, seed, where):
    checker, text = tool("checker"), story(tool, seed)
    head, _, tail = text.rpartition("Ada")
    assume("Ada" in head)
    assert checker.is_right("story", ASK, text)
    assert not checker.is_right("story", ASK, f"{head}Cleo{tail}")
    assert checker.is_grammatical("story", f"{head}Cleo{tail}")
    assert not checker.is_right("story", "Tell me a story about Cleo.", text)


@FEW
@SEEDS
def test_a_story_without_one_of_its_words_or_with_two_swapped_is_wrong(tool, seed, where):
    checker, words = tool("checker"), story(tool, seed).split(" ")
    i = where % (len(words) - 1)
    without = " ".join(words[:i] + words[i + 1 :])
    assert not checker.is_grammatical("story", without)
    assert not checker.is_right("story", ASK, without)
    assume(words[i] != words[i + 1])
    words[i], words[i + 1] = words[i + 1], words[i]
    assert not checker.is_right("story", ASK, " ".join(words))


@pytest.mark.parametrize(
    ("kind", "prompt", "right", "wrong"),
    [
        ("count", "Count from 3 to 6.", "3, 4, 5, 6", "3, 4, 6"),
        ("count", "Make a numbered list from 1 to 2.", "1. one\n2. two", "1. one\n2. too"),
        ("order", "What comes after Tuesday?", "Wednesday comes after Tuesday.", "Friday"),
        ("sum", "What is 3 + 4?", "3 + 4 = 7", "3 + 4 = 8"),
        ("copy", "Repeat: a red map", "a red map", "a map red"),
        ("world", "ada asks: What do bees make?", "Bees make honey.", "Bees make bread."),
    ],
)
def test_a_task_has_one_right_answer(tool, kind, prompt, right, wrong):
    assert tool("checker").is_right(kind, prompt, right)
    assert not tool("checker").is_right(kind, prompt, wrong)
    assert not tool("checker").is_right(kind, prompt, f"{right} And more.")


@pytest.mark.parametrize(
    ("kind", "wrong", "broken"),
    [
        ("count", "3, 4, 9", "3, 4,"),
        ("sum", "2 + 2 = 5", "2 + 2 ="),
        ("copy", "something else", "a a a a ..."),
        ("json", '{"name": "ben"}', '{"name": "ben"'),
        ("about", "Ada gave a red kite to Ada.", "Ada gave to red kite a Ada."),
    ],
)
def test_a_wrong_answer_may_be_grammatical_and_a_broken_one_is_not(tool, kind, wrong, broken):
    assert tool("checker").is_grammatical(kind, wrong)
    assert not tool("checker").is_grammatical(kind, broken)
