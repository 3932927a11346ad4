"""`python -m minivllm.lab.race LOG FOLDER --a NAME --b NAME`: both sides of a race, one by one.

Writes FOLDER/a.jsonl and FOLDER/b.jsonl. On standard output there is one line of JSON for every
progress report, and the last line has the notes, or the reason why there is no race. In a process
of its own, it does not delay the dashboard's frames, and can be ended.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from minivllm.errors import MinivllmError
from minivllm.events.types import Event, StepEnd
from minivllm.lab.compare.measure import measure_recording
from minivllm.lab.race.recorded import read_recorded_run
from minivllm.lab.race.rerun import plan_side, race_options, rerun

REPORT_EVERY = 0.1  # seconds between two progress reports
POLITENESS = 5  # added to the process's niceness: a running engine and the picture go first


def main() -> int:
    parser = argparse.ArgumentParser(prog="minivllm.lab.race", description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--a", required=True)
    parser.add_argument("--b", required=True)
    args = parser.parse_args()
    os.nice(POLITENESS)
    try:
        _race(args)
    except MinivllmError as error:
        _say(error=str(error))
        return 1
    except BrokenPipeError:  # the dashboard is gone
        sys.stdout = None
        return 1
    return 0


def _race(args: argparse.Namespace) -> None:
    run = read_recorded_run(args.log)
    sides = [race_options(run, name) for name in (args.a, args.b)]
    # Both are refused before one has run.
    a, b = (plan_side(run, side)[1] for side in sides)
    total = sum(len(ask.prompt_token_ids) + sum(map(len, ask.outputs)) for ask in (*a, *b))
    done, due, results = 0, 0.0, []

    def report(event: Event) -> None:
        # Cached tokens are not computed, so the last part can be less than 1.
        nonlocal done, due
        if type(event) is StepEnd:
            done += event.used
            if time.monotonic() >= due:
                due = time.monotonic() + REPORT_EVERY
                _say(part=min(done / total, 1.0))

    for letter, side in zip("ab", sides, strict=True):
        path = args.folder / f"{letter}.jsonl"
        rerun(run, side, path, report)
        measured = measure_recording(path).figures
        results.append((measured["seconds"], measured["kv_waste"]))
    notes, longest = list(run.notes), sides[0]["max_model_len"]
    if longest < run.header.max_model_len:
        notes.append(f"Sequences have at most {longest} tokens: the recorded blocks hold no more.")
    if len(a) != len(b):
        notes.append("Contiguous memory shares no blocks: there, each sample is a request.")
    _say(part=1.0, results=results, notes=notes)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main())
