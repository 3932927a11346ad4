"""The stories that the house model tells in the demo, as the recordings of the docs have them."""

from pathlib import Path

import pytest

from minivllm.events.recording.recording import Recording
from minivllm.lessons.scenarios.facts import RunFacts
from minivllm.lessons.scenarios.house import STORIES
from minivllm.lessons.scenarios.scenarios import SCENARIOS

RECORDINGS = Path(__file__).parents[3] / "docs/assets/recordings"


def facts_of(name: str) -> RunFacts:
    recording = Recording(RECORDINGS / f"{name}.jsonl")
    facts = RunFacts(recording.header)
    for event in recording.events(0, len(recording)):
        facts.apply(event)
    return facts


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_text_of_the_demo_ends_by_itself_and_no_request_writes_one_twice(name):
    played = facts_of(name)
    assert {done.reason for done in played.fold.history} == {"stop"}
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
