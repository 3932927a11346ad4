"""`python tools/gpu_report`: what only a GPU can show, in stages with a limit of time each.

    python tools/gpu_report --out report                    the stages of `stages.STAGES`, in turn
    python tools/gpu_report engine profile --out report     two stages
    python tools/gpu_report --out /tmp/dry --dry-run        on any machine, in a minute: tiny
                                                            shapes, times have no meaning

Each stage runs in its own process and writes DIR/STAGE.jsonl: a line about the machine, a line for
each row as soon as it is measured, and a line that says how the stage ended; without that line it
is unfinished. A stage that runs again replaces its file. A folder with figures of another device,
commit or version is refused.

For a machine without network, `make gpu-wheels` downloads the missing packages on another machine,
and `make gpu-install` installs them. Exit status: 0 if all stages are done, 1 if a stage failed or
ran out of time, 2 if this machine cannot make the report.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from machine import ROOT, describe_machine, refusal
from stages import STAGES

DRY_RUN_ENVIRONMENT = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def main() -> int:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the running stage, too
    if args.in_this_process:
        return run_here(args)
    reason = None if args.dry_run else refusal()
    if reason is None:
        about = {**describe_machine(), "dry_run": args.dry_run}
        reason = other_machine(args.out, about)
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    return max([run_in_process(stage, about, args) for stage in args.stages or STAGES])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_report", description="Measure minivllm on a GPU, stage by stage."
    )
    stages = ", ".join(f"{name} ({limit} s)" for name, (_, limit) in STAGES.items())
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{stages}; default: all")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of results")
    parser.add_argument("--dry-run", action="store_true", help="tiny shapes on any machine")
    limit = "a stage is ended after this time (default: as above)"
    parser.add_argument("--limit", type=float, metavar="SECONDS", help=limit)
    parser.add_argument("--model", default="house", help="of demo and drafts (default: house)")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.out = args.out.resolve()  # a stage runs in the repository's root
    if unknown := [stage for stage in args.stages if stage not in STAGES]:
        parser.error(f"there is no stage {unknown[0]!r}: choose from {', '.join(STAGES)}.")
    if args.out.is_file():
        parser.error(f"{args.out} is a file: name a folder.")
    return args


def other_machine(folder: Path, about: dict[str, Any]) -> str | None:
    """Why new figures must not go into this folder; None if they may."""
    for path in folder.glob("*.jsonl"):
        then = json.loads(path.read_text("utf-8").partition("\n")[0] or "{}")
        differ = [name for name in about if "began" in then and then.get(name) != about[name]]
        if differ:
            return f"{path} has figures of another {' and '.join(differ)}: name another --out."
    return None


def run_in_process(stage: str, about: dict[str, Any], args: argparse.Namespace) -> int:
    path, limit = args.out / f"{stage}.jsonl", args.limit or STAGES[stage][1]
    write_line(
        path, {"stage": stage, "began": time.strftime("%FT%TZ", time.gmtime()), **about}, "w"
    )
    command = [sys.executable, Path(__file__).parent, stage, "--out", args.out, "--in-this-process"]
    command += ["--model", args.model, *["--dry-run"] * args.dry_run]
    environment = {**os.environ, **(DRY_RUN_ENVIRONMENT if args.dry_run else {})}
    began, ended = time.monotonic(), "interrupted"
    # A group of its own can be killed with its children. A session of its own would run on after a
    # lent machine has killed the command.
    child = subprocess.Popen(command, cwd=ROOT, env=environment, process_group=0)
    try:
        status = child.wait(limit)
        ended = "done" if status == 0 else f"failed with exit status {status}"
        if status < 0:
            ended = f"ended by {signal.Signals(-status).name}"
    except subprocess.TimeoutExpired:
        ended = f"out of time after {limit:.0f} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        write_line(path, {"ended": ended, "seconds": time.monotonic() - began})
    print(f"{stage}: {ended}", flush=True)
    return 0 if ended == "done" else 1


def run_here(args: argparse.Namespace) -> int:
    (stage,) = args.stages
    complete = True
    for row in STAGES[stage][0](args):
        write_line(args.out / f"{stage}.jsonl", row)
        cells = {name: row[name] for name in row if not isinstance(row[name], dict | list)}
        print(f"{stage}: {json.dumps(cells)}", flush=True)
        complete &= "failed" not in row
    return 0 if complete else 1


def write_line(path: Path, row: dict[str, Any], mode: str = "a") -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
