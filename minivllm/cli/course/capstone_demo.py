"""Runs the capstone's scenario in a process whose engine is made of a student's pieces.

`minivllm exercise demo --all-passed` starts this file as `python -m
minivllm.cli.course.capstone_demo SETTINGS WATCH [options of demo]`, with settings that were tried
before.
"""

import sys

import msgspec

from minivllm.cli import build_parser, status_of
from minivllm.lessons.checker.capstone.trial import Settings, describe
from minivllm.text import clean


def run(settings: Settings, watch: str, options: list[str]) -> int:
    settings.install()
    from minivllm.cli.serving.demo import play
    from minivllm.lessons.scenarios.capstone import capstone

    args = build_parser("demo").parse_args(["demo", *options])
    try:
        return status_of(lambda: play(args, capstone(watch, **settings.options)))
    except Exception as error:
        failure = describe(error, settings.own_files)
        owner = next((one for one in settings.own_files if one.file == failure["file"]), None)
        name = f"Your {owner.exercise}" if owner else "A piece"
        print(clean(f"minivllm: {name} stopped the engine: {failure['text']}."), file=sys.stderr)
        if owner:
            print(f"It is in {owner.file}.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(run(msgspec.json.decode(sys.argv[1], type=Settings), sys.argv[2], sys.argv[3:]))
