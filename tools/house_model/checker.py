"""How good is a checkpoint: the share of held-out prompts with a right answer, per kind.

    python tools/house_model/checker.py minivllm/runtime/store/house --show

A story must parse by the grammar, with the same names and things from its first sentence to its
last. An answer about serving or the world must be one of the known ones, whole. A task's answer is
computed from the prompt.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from corpus import KINDS, STOP, Exchange, chat_prompt, exchange, topics
from grammar import fill
from stories import parse_request, parse_story
from tasks import TASKS
from transformers import AutoModelForCausalLM, AutoTokenizer

NUM_PROMPTS = 200
SEED = 1_000_003
"""Not the seed of any training; the held-out prompts themselves are never trained on."""
_MAX_TOKENS = 300
_BATCH = 25


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    kind: str
    prompt: str
    text: str
    right: bool


def is_right(kind: str, prompt: str, text: str) -> bool:
    """True if the text answers a prompt of this kind in grammatical English."""
    if kind == "story":
        fixed = parse_request(prompt)
        return fixed is not None and parse_story(text, fixed) is not None
    if kind == "about":
        return text == _answer_about(prompt)
    if kind in ("serving", "world"):
        # A prefix ("ada asks: ") is not part of the question.
        return any(
            prompt.endswith(question) and text in topic["say"]
            for topic in topics(kind)
            for question in topic["ask"]
        )
    return text in next(task for task in TASKS if task.name == kind).answers(prompt)


def _answer_about(prompt: str) -> str | None:
    """The answer to a question about a story, from the story's cast."""
    text, _, question = prompt.rpartition("\n")
    story = parse_story(text)
    if story is None:
        return None
    pairs = [*story.plot["ask"], ["Tell this story in one sentence.", story.plot["summary"][0]]]
    for asked, answer in pairs:
        if fill(asked, story.cast) == question:
            return fill(answer, story.cast)
    return None


def held_out_prompts(number: int = NUM_PROMPTS, seed: int = SEED) -> list[Exchange]:
    """Prompts of all kinds in turn that training never shows."""
    random = Random(seed)
    return [exchange(random, KINDS[i % len(KINDS)], held_out=True) for i in range(number)]


def every_serving_question() -> list[Exchange]:
    """All questions about serving, as they were taught, without a prefix."""
    return [
        Exchange("serving", question, topic["say"][0])
        for topic in topics("serving")
        for question in topic["ask"]
    ]


def judge(model: torch.nn.Module, tokenizer: object, asked: list[Exchange]) -> list[JudgedAnswer]:
    """Let the model answer greedily, and check each answer."""
    answers = []
    for start in range(0, len(asked), _BATCH):
        batch = asked[start : start + _BATCH]
        texts = _greedy(model, tokenizer, [chat_prompt(None, one.prompt) for one in batch])
        answers += [
            JudgedAnswer(one.kind, one.prompt, text, is_right(one.kind, one.prompt, text))
            for one, text in zip(batch, texts, strict=True)
        ]
    return answers


@torch.inference_mode()
def _greedy(model: torch.nn.Module, tokenizer: object, prompts: list[str]) -> list[str]:
    rows = tokenizer(prompts, padding=True, padding_side="left", return_tensors="pt")
    length = rows["input_ids"].shape[1]
    outputs = model.generate(
        input_ids=rows["input_ids"],
        attention_mask=rows["attention_mask"],
        do_sample=False,
        max_new_tokens=_MAX_TOKENS,
        pad_token_id=tokenizer.pad_token_id,
    )
    # A text without its end token was cut, and is no whole answer.
    texts = tokenizer.batch_decode(outputs[:, length:])
    return [text.partition(STOP)[0] if STOP in text else f"{text} ..." for text in texts]


def report(answers: list[JudgedAnswer]) -> str:
    """One line per kind, and the total."""
    asked = Counter(one.kind for one in answers)
    right = Counter(one.kind for one in answers if one.right)
    lines = [f"{kind:8} {right[kind]:4} of {asked[kind]}" for kind in asked]
    share = 100 * right.total() / len(answers)
    return "\n".join([*lines, f"{'all':8} {right.total():4} of {len(answers)}: {share:.1f} %"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--prompts", type=int, default=NUM_PROMPTS)
    parser.add_argument("--show", action="store_true", help="print wrong answers")
    arguments = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(arguments.checkpoint, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(arguments.checkpoint)
    for title, asked in (
        ("held-out prompts", held_out_prompts(arguments.prompts)),
        ("all questions about serving", every_serving_question()),
    ):
        answers = judge(model, tokenizer, asked)
        print(f"{title}\n{report(answers)}")
        for one in answers if arguments.show else ():
            if not one.right:
                print(f"  {one.kind}: {one.prompt!r}\n    {one.text!r}")


if __name__ == "__main__":
    main()
