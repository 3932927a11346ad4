"""What the regions of the GPU report share: a stage, its machine, a table, and missing figures."""

from typing import Any

Stage = dict[str, Any]


class MissingError(Exception):
    """A stage's file lacks something that the pages need; the message says how to get it."""


def readme_not_measured(stage: str) -> str:
    return "not measured yet: `make gpu-report`"


def not_measured(stage: str) -> str:
    return (
        f"Not measured yet. On a machine with a CUDA device `python tools/gpu_report {stage} --out"
        " report` measures it, and `python tools/gpu_report/tables.py report` writes it here."
    )


def measured_on(stage: Stage) -> str:
    device, versions = stage["environment"]["device"], stage["environment"]["versions"]
    packages = ", ".join(
        f"{name} {versions[name]}" for name in ("torch", "triton", "transformers", "numpy")
    )
    driver = f" (driver {device['driver']})" if device["driver"] else ""
    text = (
        f"`python tools/gpu_report {stage['stage']} --out report`, {stage['began'][:10]},"
        f" {device['name']}{driver}; Python {versions['python']}, {packages}."
    )
    if stage["status"] != "done":
        text += f" The stage is incomplete ({stage['status']}), so rows may be missing."
    return text


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
