"""The last lines of a test run: which promise each suite guards, its time, and what was left out.

A suite is a folder of tests/, or a file at its top, which guards one promise of the README.
"""

from collections import Counter, defaultdict
from pathlib import PurePath

import pytest

PROMISES = {
    "test_fold_is_inspect.py": "the events alone give the engine's state, after every phase",
    "test_tokens_are_those_of_transformers.py": "no schedule changes a token",
    "test_kernels_are_the_reference.py": "each kernel computes what its plain reference computes",
    "test_the_screen_is_the_fold.py": "the dashboard draws what the events say, at any moment",
    "core": "memory and scheduling decide what an independent reference predicts",
    "engine": "every request ends, with its own text and a clear reason",
    "events": "a recording gives back every event; a damaged one, all before the damage",
    "kernels": "no kernel reads or writes what is not its own",
    "cli": "a command that is wrong gets one clear sentence",
    "house": "the rooms keep their budgets, their arrows and the style of the house",
    "lab": "the same requests in another configuration are the same requests",
    "lessons": "every lesson runs to its end, and what it claims is checked",
    "exercises": "the engine passes each exercise, and its typical mistakes do not",
    "runtime": "a step, an attention and a sample do not depend on the batch",
    "server": "clients get OpenAI's answers, and a clear error for a bad request",
    "speculation": "drafts change no token",
    "structured_output": "constrained output is always valid",
    "kv_transfer": "a second memory changes no token, and every wait for it ends",
    "vllm": "a real vLLM's recording equals its state, and never stops it",
    "tui": "each panel, key and source shows what is there",
}
THE_REST = "smollm2, random histories, child processes, the site and tools: make test-all"


def suite_of(nodeid: str) -> str:
    parts = PurePath(nodeid.partition("::")[0]).parts[1:]
    return "/".join(parts[: 2 if parts[0] == "more" else 1])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds, tests, left_out = defaultdict(float), Counter(), Counter()
    for kind, reports in terminalreporter.stats.items():
        for report in reports:
            if not isinstance(report, pytest.TestReport | pytest.CollectReport):
                continue
            if kind == "skipped":
                left_out[report.longrepr[2].removeprefix("Skipped: ")] += 1
            if isinstance(report, pytest.TestReport):
                seconds[suite_of(report.nodeid)] += report.duration
                tests[suite_of(report.nodeid)] += report.when == "call"
    write = terminalreporter.write_line
    write("")
    width = max(map(len, tests), default=0)
    for suite in sorted(tests, key=lambda suite: (suite.count("/"), suite)):
        promise = PROMISES.get(suite, "")
        write(
            f"{suite:{width}}  {tests[suite]:5} tests {seconds[suite]:6.1f} s  {promise}".rstrip()
        )
    for reason, count in sorted(left_out.items()):
        write(f"left out, {count} test{'s' * (count > 1)}: {reason}")
    if "/" not in "".join(tests):
        write(f"the rest: {THE_REST}")
