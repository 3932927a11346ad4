"""Print the lines of each room, with its budget and the difference to another commit.

A room is a folder of the repository or of minivllm/. Lines that are blank or only a comment do not
count. The budgets are in pyproject.toml (`[tool.minivllm.rooms]`), and a test checks them.

`--engine` prints only what one `LLM.generate` with default options loads: its modules, and the C
files beside them, which are compiled.
"""

import argparse
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATE = """
import sys
from minivllm import LLM
LLM("house", device="cpu").generate("Once upon a time", use_tqdm=False)
print(*(m.__file__ for name, m in sys.modules.items() if name.startswith("minivllm")), sep="\\n")
"""


def lines_of_files(*commit: str) -> dict[str, int]:
    """Lines of each tracked file, as it is now or in a commit."""
    counting = ("git", "grep", "-cE", r"^\s*[^#[:space:]]", *commit)
    rows = _output(*counting, "--", "*.py", "*.c", "*.h", "*.tcss")
    return {path: int(count) for *_, path, count in (row.split(":") for row in rows)}


def lines_of_generate() -> dict[str, int]:
    """Lines of each file that `LLM.generate` needs, found by calling it in a new process."""
    modules = {Path(file).resolve() for file in _output(sys.executable, "-c", GENERATE)}
    files = modules | {file for module in modules for file in module.parent.glob("*.[ch]")}
    return {path: lines for path, lines in lines_of_files().items() if ROOT / path in files}


def by_room(lines_by_path: dict[str, int]) -> Counter[str]:
    rooms: Counter[str] = Counter()
    for path, lines in lines_by_path.items():
        folders = path.split("/")[:-1]
        rooms["/".join(folders[: 2 if folders[0] == "minivllm" else 1])] += lines
    return rooms


def budgets() -> dict[str, int]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["minivllm"]["rooms"]


def base() -> str:
    """origin/main if it is another commit, else the one before (in a clone of one commit: HEAD)."""
    theirs = _output("git", "for-each-ref", "--format=%(objectname)", "refs/remotes/origin/main")
    if theirs and theirs != _output("git", "rev-parse", "HEAD"):
        return "origin/main"
    return _output("git", "log", "-2", "--format=%h")[-1]


def table(now: Counter[str], before: Counter[str], limits: dict[str, int]) -> list[str]:
    rows = [f"{'lines':>7}{'budget':>8}{'left':>7}{'+/-':>7}  room"]
    for room in sorted(now | before, key=lambda room: -now[room]):
        lines, limit = now[room], limits.get(room, 0)
        rows.append(f"{lines:7}{limit:8}{limit - lines:7}{lines - before[room]:+7}  {room}")
    return [*rows, f"{now.total():7}{now.total() - before.total():+22}  all rooms"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", action="store_true", help="only what LLM.generate loads")
    parser.add_argument(
        "against", nargs="?", help="a commit; default: origin/main, else the one before"
    )
    args = parser.parse_args()
    if args.engine:
        rooms = by_room(lines_of_generate())
        print(*(f"{lines:7}  {room}" for room, lines in rooms.most_common()), sep="\n")
        print(f"{rooms.total():7}  all rooms")
        return
    against = args.against or base()
    rooms = by_room(lines_of_files())
    print(*table(rooms, by_room(lines_of_files(against)), budgets()), sep="\n")
    print(f"+/- is the difference to {against}.")


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    main()
