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
from datetime import date
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).parent / "bench_ratios.json"
TOLERANCE = 0.15
BENCH = (
    "minivllm bench throughput --workload all --quick --vs transformers --dtype float32 --json"
    " --num-threads 2 --rounds 5"
)


def measure(model: str) -> dict[str, Any]:
    """Return the values to commit. Ends this process if the bench fails."""
    command = f"{BENCH} --model {model}"
    child = subprocess.run(
        [sys.executable, "-m", *command.split()], stdout=subprocess.PIPE, text=True
    )
    if child.returncode != 0:
        sys.exit(f"The bench ended with status {child.returncode}; its output is above.")
    found = json.loads(child.stdout.splitlines()[-1])
    where = {name: found[name] for name in ("model", "threads", "machine", "versions")}
    ratios = {result["workload"]: round(result["ratio"], 3) for result in found["workloads"]}
    return {"command": command, "date": date.today().isoformat(), **where, "ratios": ratios}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--update", action="store_true", help="write the committed ratios")
    args = parser.parse_args()
    now = measure(args.model)
    if args.update:
        COMMITTED.write_text(json.dumps(now, indent=2) + "\n")
        print(f"Wrote {now['ratios']}. Commit it with the change that affects the speed.")
        return 0
    committed = json.loads(COMMITTED.read_text())
    if now["ratios"].keys() != committed["ratios"].keys():
        sys.exit("The committed workloads differ from the measured ones: run make bench-update.")
    slower = False
    for workload, before in committed["ratios"].items():
        ratio = now["ratios"][workload]
        bad = ratio < before * (1 - TOLERANCE)
        slower |= bad
        words = f"more than {TOLERANCE:.0%} too slow" if bad else "ok"
        print(f"{workload}: {ratio:.2f} against {before:.2f} ({ratio / before - 1:+.0%}), {words}")
    for name in ("model", "threads", "machine", "versions"):
        if now[name] != committed[name]:
            print(f"{name}: {now[name]}; the committed ratios are of {committed[name]}.")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
