"""The stories that the house model tells in the demo, as the recordings of the docs have them."""

from pathlib import Path

import pytest

from minivllm.events.recording.recording import Recording
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.house import STORIES
from minivllm.lessons.scenarios.scenarios import SCENARIOS

RECORDINGS = Path(__file__).parents[2] / "docs/assets/recordings"


def facts_of(name: str) -> RunFacts:
    recording = Recording(RECORDINGS / f"{name}.jsonl")
    facts = RunFacts(recording.header)
    for event in recording.events(0, len(recording)):
        facts.apply(event)
    return facts


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_text_of_the_demo_ends_by_itself_and_no_request_writes_one_twice(name):
    played = facts_of(name)
    assert {one.reason for one in played.fold.history} == {"stop"}
    for request in SCENARIOS[name].arrivals:
        texts = played.requests[request.request_id].texts
        assert len(set(texts)) == len(texts) == request.params.n


@pytest.mark.parametrize("name", STORIES)
def test_every_story_of_the_demo_is_one_of_the_grammar_and_what_the_user_asked_for(name, tool):
    played = facts_of(name)
    is_right = tool("checker").is_right
    for user, story in STORIES[name].items():
        for text in played.requests[user].texts:
            assert is_right("story", story.prompt, text), text


def test_the_first_demo_has_another_plot_for_nearly_every_user(tool):
    requests = facts_of("shared-prefix").requests.values()
    parse = tool("stories").parse_story
    plots = {parse(text).plot["name"] for one in requests for text in one.texts}
    assert len(requests) == 8 and len(plots) >= 7
