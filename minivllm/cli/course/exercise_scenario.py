"""Plays the scenario that runs the code of an exercise, in the process of `exercise_demo`."""

from importlib import import_module

from minivllm.cli import build_parser
from minivllm.cli.serving import demo
from minivllm.core import scheduler
from minivllm.lessons.checker.catalogue import POLICY_MODULE, find_exercise
from minivllm.lessons.scenarios.capstone import capstone
from minivllm.lessons.scenarios.scenario import PROMPT_LOOKUP

OPTIONS: dict[str, tuple[str, str]] = {
    "copy-on-write": ("--scenario", "parallel-sampling"),
    "preemption": ("--scenario", "memory-pressure"),
    "paged-attention": ("--attention-backend", "torch"),
    "split-kv": ("--attention-backend", "torch"),
    "paged-attention-triton": ("--attention-backend", "triton:naive"),
    "verify-drafts": ("--scenario", "speculation"),
    "own-policy": ("--scenario", "burst"),
}
"""Exercise -> options of `demo` that make its code run. Interpreted Triton takes seconds a step."""


def play(names: list[str], options: list[str], *, of_pieces: bool) -> int:
    needed = () if of_pieces else OPTIONS.get(names[0], ())
    args = build_parser("demo").parse_args(["demo", *needed, *options])
    if of_pieces:
        drafts = {"speculative_config": dict(PROMPT_LOOKUP)} if "verify-drafts" in names else {}
        return demo.play(args, capstone(f"this engine runs on your {', '.join(names)}.", **drafts))
    exercise = find_exercise(names[0])
    if exercise.is_open:
        own_policy = import_module(POLICY_MODULE).OwnPolicy
        scheduler.create_request_queue = lambda policy: own_policy()
    if exercise.name == "stop-strings":
        return demo.play(args, capstone("finn, whose story ends at a stop string."))
    return demo.run(args)
