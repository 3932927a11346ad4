"""The text that the house model learns from."""

from itertools import islice
from random import Random

import pytest
from transformers import AutoTokenizer

from minivllm.lessons.scenarios.scenarios import SCENARIOS

UNTAUGHT = {"Who is Hana, 27, from Tokyo?"}
"""`structured` shows what a schema makes of a question that the model cannot answer."""
KINDS = ("story", "about", "serving", "world", "count", "order", "sum", "copy", "json")


@pytest.mark.parametrize("held_out", [False, True], ids=["taught", "held-out"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_checker_accepts_every_generated_answer(tool, kind, held_out):
    corpus, checker = tool("corpus"), tool("checker")
    random = Random(3)
    for _ in range(15):
        example = corpus.exchange(random, kind, held_out=held_out)
        assert checker.is_right(kind, example.prompt, example.answer), example
        assert checker.is_grammatical(kind, example.answer), example
        assert corpus.is_held_out(example.prompt) == held_out


def test_training_documents_have_no_held_out_prompt(tool):
    corpus = tool("corpus")
    texts = ("".join(text for text, _ in parts) for parts in islice(corpus.documents(1), 40))
    prompts = [
        piece.partition(corpus.STOP)[0]
        for text in texts
        for piece in text.split(f"{corpus.START}user\n")[1:]
    ]
    assert prompts
    assert not any(map(corpus.is_held_out, prompts))


def test_every_prompt_of_the_demo_is_taught(tool):
    corpus, stories = tool("corpus"), tool("stories")
    taught = {ask for topic in corpus.topics("world") for ask in topic["ask"]}
    for scenario in SCENARIOS.values():
        for arrival in scenario.arrivals:
            prompt = arrival.messages[-1]["content"]
            is_task = any(task.answers(prompt) for task in corpus.TASKS)
            is_story = stories.parse_request(prompt) is not None
            assert prompt in taught | UNTAUGHT or is_story or is_task, prompt
            assert not corpus.is_held_out(prompt)


def test_a_chat_prompt_is_what_the_chat_template_writes(tool, tmp_path):
    corpus, tokenizer = tool("corpus"), tool("tokenizer")
    tokenizer.write_tokenizer(tokenizer.train_tokenizer(0, 20), tmp_path)
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"}]
    text = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    assert text == corpus.chat_prompt("Be kind.", "Hi!")
