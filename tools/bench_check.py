"""`make bench-check`: measures four workloads quickly, and fails if a ratio has become worse.

    python tools/bench_check.py             compare with tools/bench_ratios.json; exit status 1
                                            if a ratio is too low
    python tools/bench_check.py --update    write tools/bench_ratios.json again

A ratio is our speed divided by the speed of `transformers` in the same run: the median over the
rounds. Ratios depend on the processor and the number of threads; the check says so if these differ
from those of the committed ratios.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).parent / "bench_ratios.json"
TOLERANCE = 0.15
MIN_ROUNDS = 5
BENCH = "bench throughput --workload all --quick --vs transformers --dtype float32 --json"


@dataclass(frozen=True)
class WorkloadVerdict:
    workload: str
    ratio: float
    committed: float

    @property
    def regressed(self) -> bool:
        return self.ratio < self.committed * (1 - TOLERANCE)

    def __str__(self) -> str:
        change = (self.ratio / self.committed - 1) * 100
        words = f"more than {TOLERANCE:.0%} too slow" if self.regressed else "ok"
        return (
            f"{self.workload}: {self.ratio:.2f} against the committed {self.committed:.2f}"
            f" ({change:+.0f} %), {words}"
        )


class CheckError(Exception):
    """The check cannot give a verdict; the message says why, in one sentence."""


def ratios_of(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the values to commit, from `minivllm bench throughput --workload all --json`."""
    results = measured["workloads"]
    first = results[0]
    return {
        "command": (
            f"minivllm {BENCH} --model {first['model']} --num-threads {first['threads']} --rounds"
            f" {first['rounds']}"
        ),
        "date": date.today().isoformat(),
        "model": first["model"],
        "threads": first["threads"],
        "rounds": first["rounds"],
        "machine": first["machine"],
        "versions": first["versions"],
        "ratios": {result["workload"]: round(result["ratio"], 3) for result in results},
    }


def compare(now: dict[str, Any], committed: dict[str, Any]) -> list[WorkloadVerdict]:
    """Return a verdict per committed workload. Raises `CheckError` if the workloads differ."""
    if now["ratios"].keys() != committed["ratios"].keys():
        raise CheckError(
            "The committed workloads differ from the measured ones: run make bench-update, and"
            " commit."
        )
    return [
        WorkloadVerdict(name, now["ratios"][name], ratio)
        for name, ratio in committed["ratios"].items()
    ]


def other_circumstances(now: dict[str, Any], committed: dict[str, Any]) -> list[str]:
    pairs = [(key, now[key], committed[key]) for key in ("model", "threads")]
    pairs += [(key, now["machine"][key], committed["machine"][key]) for key in ("cpu", "cores")]
    pairs += [
        (key, now["versions"].get(key), committed["versions"].get(key))
        for key in ("torch", "transformers")
    ]
    return [
        f"{key} is {ours}, but was {theirs} for the committed ratios."
        for key, ours, theirs in pairs
        if ours != theirs
    ]


def read_committed(path: Path) -> dict[str, Any]:
    try:
        committed = json.loads(path.read_text())
        if not all(
            isinstance(ratio, (int, float)) and ratio > 0 for ratio in committed["ratios"].values()
        ):
            raise ValueError
        other_circumstances(committed, committed)  # raises if a needed value is missing
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckError(
            f"{path.name} is missing or damaged: write it again with make bench-update."
        ) from None
    return committed


def measure(model: str, threads: int, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "minivllm", *BENCH.split(), "--model", model]
    command += ["--num-threads", str(threads), "--rounds", str(rounds)]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if child.returncode != 0:
        raise CheckError(f"The bench ended with status {child.returncode}; its output is above.")
    return json.loads(child.stdout.splitlines()[-1])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Fail if the ratio of a workload is worse than the committed one."
    )
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument(
        "--update", action="store_true", help="write the committed ratios instead of comparing"
    )
    args = parser.parse_args(argv)
    try:
        if args.rounds < MIN_ROUNDS:
            raise CheckError(f"A verdict needs at least {MIN_ROUNDS} rounds; got {args.rounds}.")
        committed = None if args.update else read_committed(COMMITTED)
        now = ratios_of(measure(args.model, args.num_threads, args.rounds))
        if committed is None:
            COMMITTED.write_text(json.dumps(now, indent=2) + "\n")
            print(
                f"Wrote {COMMITTED.name}: {now['ratios']}. Commit it with the change that affects"
                " the speed."
            )
            return 0
        verdicts = compare(now, committed)
    except CheckError as error:
        print(f"bench-check: {error}", file=sys.stderr)
        return 2
    for line in (*verdicts, *other_circumstances(now, committed)):
        print(line)
    return 1 if any(verdict.regressed for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
