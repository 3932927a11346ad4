"""`python tools/gpu_report`: all measurements that need a GPU, in stages of at most ten minutes.

    python tools/gpu_report --out report                      all stages in turn
    python tools/gpu_report kernels engine --out report       two stages
    python tools/gpu_report --out /tmp/dry --dry-run          on any machine, in a minute: tiny
                                                              shapes, times have no meaning

    tests      the tests marked `gpu`; a row for each file
    kernels    attention and cache writes, peers, and the device's copy and read speed
    tune       launch parameters of the attention kernels
    engine     nano-vllm's workload, compared with three ways to run transformers
    profile    the parts of a decode step: kernels, launches, Python
    demo       not a measurement: records the demo, with one traced decode, to DIR/demo.jsonl

Each stage runs in its own process and writes DIR/STAGE.json (`stage_file`). A second run keeps the
existing rows if device, versions and commit are the same, and measures the missing rows. It does
not compare uncommitted changes, so use another DIR after such a change. `tables.py` writes the
results to the docs.

For a machine without network, `make gpu-wheels` downloads the missing packages on another machine,
and `make gpu-install` installs them. Exit status: 0 if all stages are done, 1 if a stage failed or
ran out of time, 2 if this machine cannot run the report.
"""

import argparse
import os
import signal
import subprocess
import sys
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path

from machine import ROOT, clocks, describe_machine, refusal
from stage_file import OutOfTimeError, StageFailedError, StageFile, mark_ended, read_stage

from minivllm.clock import MonotonicClock

STAGES = ("tests", "kernels", "tune", "engine", "profile", "demo")
LIMIT_S = 540.0
SECONDS_TO_FINISH = 45.0
"""After its limit, a stage may continue for this many seconds to finish a row."""
DRY_RUN_ENVIRONMENT = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def main(arguments: list[str] | None = None) -> int:
    args = _parse(arguments)
    if args.in_this_process:
        return _run_here(args)
    reason = None if args.dry_run else refusal()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    return max([_run_in_process(stage, args) for stage in args.stages or STAGES])


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_report", description="Measure minivllm on a GPU, stage by stage."
    )
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"{', '.join(STAGES)} (default: all of them)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for the results"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="run on any machine with tiny shapes: times are meaningless",
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS",
        help="time limit of each stage; after it no new row is started (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--model",
        help="model for the stage demo (default: smollm2 if it is downloaded, else tiny-random)",
    )
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    args.out = args.out.resolve()  # a stage runs in the repository's root
    # With `choices`, argparse would reject the empty list, too.
    unknown = [stage for stage in args.stages if stage not in STAGES]
    if unknown:
        parser.error(f"there is no stage {unknown[0]!r}: choose from {', '.join(STAGES)}.")
    return args


def _run_in_process(stage: str, args: argparse.Namespace) -> int:
    path = args.out / f"{stage}.json"
    command = [
        sys.executable,
        str(Path(__file__).parent),
        stage,
        "--out",
        str(args.out),
        "--limit",
        str(args.limit),
    ]
    command += (
        ["--dry-run"] * args.dry_run
        + (["--model", args.model] if args.model else [])
        + ["--in-this-process"]
    )
    environment = {**os.environ, **(DRY_RUN_ENVIRONMENT if args.dry_run else {})}
    # The stage gets its own session, so that it can be killed together with its children.
    child = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        status = child.wait(args.limit + SECONDS_TO_FINISH)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if status is None:
        sentence = (
            f"A row was not done {SECONDS_TO_FINISH:.0f} s after the limit, so the stage was"
            " stopped."
        )
        mark_ended(path, stage, "out of time", sentence)
    elif status < 0:
        mark_ended(
            path,
            stage,
            "failed",
            f"The stage's process was ended by {signal.Signals(-status).name}.",
        )
    elif status > 0 and (read_stage(path) or {}).get("status") in (None, "running", "done"):
        mark_ended(path, stage, "failed", f"The stage's process ended with exit status {status}.")
    result = read_stage(path)
    said = f"{stage}: {result['status']}, {len(result['rows'])} rows, {result['seconds']:.0f} s"
    print(f"{said}. {result['error'] or ''}".rstrip(), flush=True)
    return 0 if status == 0 else 1


def _run_here(args: argparse.Namespace) -> int:
    (stage,) = args.stages
    report = StageFile(
        args.out / f"{stage}.json", stage, describe_machine(args.out),
        dry_run=args.dry_run, limit_s=args.limit, clock=MonotonicClock(),
    )  # fmt: skip
    try:
        _find(stage, args)(report, dry_run=args.dry_run)
    except OutOfTimeError as error:
        report.end("out of time", str(error), clocks())
        return 1
    except StageFailedError as error:
        report.end("failed", str(error), clocks())
        return 1
    except Exception as error:
        traceback.print_exc()
        report.end("failed", f"{type(error).__name__}: {error}", clocks())
        return 1
    report.end("done", None, clocks())
    return 0


def _find(stage: str, args: argparse.Namespace) -> partial[None]:
    """Return the function of a stage. Only this stage's module is imported."""
    match stage:
        case "kernels" | "tune":
            return partial(getattr(import_module("stage_kernels"), f"run_{stage}"))
        case "demo":
            return partial(
                import_module("stage_demo").run, model=args.model, recording=args.out / "demo.jsonl"
            )
        case _:
            return partial(import_module(f"stage_{stage}").run)


if __name__ == "__main__":
    sys.exit(main())
