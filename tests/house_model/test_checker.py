"""The checker rejects text that is broken, however little."""

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

FEW = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ASK = "Tell me a story about Ada and Ben."


def story(tool, seed):
    return tool("stories").write_story(Random(seed), {"hero": "Ada", "friend": "Ben"}).text


@FEW
@given(seed=st.integers(0, 10_000))
def test_a_story_that_changes_a_name_on_the_way_is_wrong(tool, seed):
    text = story(tool, seed)
    head, _, tail = text.rpartition("Ada")
    assume("Ada" in head)
    assert tool("checker").is_right("story", ASK, text)
    assert not tool("checker").is_right("story", ASK, f"{head}Cleo{tail}")


@pytest.mark.parametrize(
    ("kind", "prompt", "right", "wrong"),
    [
        ("count", "Count from 3 to 6.", "3, 4, 5, 6", "3, 4, 6"),
        ("count", "Make a numbered list from 1 to 2.", "1. one\n2. two", "1. one\n2. too"),
        ("order", "What comes after Tuesday?", "Wednesday comes after Tuesday.", "Friday"),
        ("sum", "What is 3 + 4?", "3 + 4 = 7", "3 + 4 = 8"),
        ("copy", "Repeat: a red map", "a red map", "a map red"),
        ("copy", "Repeat two times: hi", "hi\nhi", "hi"),
        (
            "json",
            "Write a JSON record for ada, 31, from Oslo.",
            '{"name": "ada", "age": 31, "city": "Oslo"}',
            '{"name": "ada", "age": 13, "city": "Oslo"}',
        ),
        ("world", "ada asks: What do bees make?", "Bees make honey.", "Bees make bread."),
    ],
)
def test_a_task_has_one_right_answer(tool, kind, prompt, right, wrong):
    assert tool("checker").is_right(kind, prompt, right)
    assert not tool("checker").is_right(kind, prompt, wrong)
    assert not tool("checker").is_right(kind, prompt, f"{right} And more.")


def test_an_answer_about_another_topic_of_serving_is_wrong(tool):
    blocks, caches = tool("corpus").topics("serving")[:2]
    question = "ben asks: What is a block?"
    assert tool("checker").is_right("serving", question, blocks["say"][0])
    assert not tool("checker").is_right("serving", question, caches["say"][0])


@FEW
@given(seed=st.integers(0, 10_000), where=st.integers(0, 1_000))
def test_a_story_without_one_of_its_words_is_ungrammatical(tool, seed, where):
    words = story(tool, seed).split(" ")
    del words[where % len(words)]
    assert not tool("checker").is_grammatical("story", " ".join(words))


@pytest.mark.parametrize(
    ("kind", "wrong", "broken"),
    [
        ("count", "3, 4, 9", "3, 4,"),
        ("order", "g comes after h.", "g comes h."),
        ("sum", "2 + 2 = 5", "2 + 2 ="),
        ("copy", "something else", "a a a a ..."),
        ("json", '{"name": "ben"}', '{"name": "ben"'),
        ("about", "Ada gave a red kite to Ada.", "Ada gave to red kite a Ada."),
        ("serving", "I am a tiny language model. I live in minivllm and show how serving works.",
         "I am a tiny tiny."),
    ],
)  # fmt: skip
def test_a_wrong_answer_may_be_grammatical_and_a_broken_one_is_not(tool, kind, wrong, broken):
    assert tool("checker").is_grammatical(kind, wrong)
    assert not tool("checker").is_grammatical(kind, broken)


def test_a_story_about_somebody_else_is_wrong(tool):
    assert not tool("checker").is_right("story", "Tell me a story about Cleo.", story(tool, 1))


def test_a_story_that_changes_a_name_is_grammatical_all_the_same(tool):
    text = story(tool, 3)
    head, _, tail = text.rpartition("Ada")
    assert tool("checker").is_grammatical("story", text)
    assert tool("checker").is_grammatical("story", f"{head}Cleo{tail}")


@FEW
@given(seed=st.integers(0, 10_000), where=st.integers(0, 1_000))
def test_a_story_with_two_words_swapped_is_wrong(tool, seed, where):
    words = story(tool, seed).split(" ")
    i = where % (len(words) - 1)
    assume(words[i] != words[i + 1])
    words[i], words[i + 1] = words[i + 1], words[i]
    assert not tool("checker").is_right("story", ASK, " ".join(words))


@FEW
@given(seed=st.integers(0, 10_000), where=st.integers(0, 1_000))
def test_a_story_without_one_of_its_words_is_wrong(tool, seed, where):
    words = story(tool, seed).split(" ")
    del words[where % len(words)]
    assert not tool("checker").is_right("story", ASK, " ".join(words))
