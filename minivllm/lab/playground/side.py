"""`play_side`: serves the requests with one configuration; returns its figures and its recording.

Engine, scheduler and memory are the real ones, as in a race of the dashboard (`minivllm.lab.race`).
The model is replaced by the recording's tokens, and a step's time by a formula.

A reader's own arrivals have the format of `minivllm simulate --arrival FILE`. There are no texts:
every token of a request is a dot, and requests of one prefix group begin with the same tokens.
"""

from pathlib import Path
from typing import Any

from msgspec import structs

from minivllm.errors import ConfigError, SimulationError
from minivllm.lab.compare.measure import measure_recording
from minivllm.lab.race.rerun import RecordedRequest, RecordedRun, options_of, plan_side, rerun
from minivllm.lab.simulate.arrivals import read_arrivals

MOST_BLOCKS = 4096  # more blocks take longer than a reader waits, and the page cannot draw them
MOST_REQUESTS = 200
MOST_TOKENS = 50_000  # a browser runs a few thousand steps in the time that a reader waits
DOT = "·"


def play_side(
    run: RecordedRun, options: dict[str, Any], path: Path, check: bool = False
) -> dict[str, Any]:
    """Serve all requests; return the `figures` of `measure_recording`, and the file's text.

    options: changes to `options_of(run.header)`
    check: check the rules of `minivllm.core.invariants` after each step

    Raises `ConfigError` or `SimulationError` for options that the engine cannot run with.
    """
    known = options_of(run.header)
    if unknown := [name for name in options if name not in known]:
        raise ConfigError(f"There is no option {unknown[0]} here: use {', '.join(known)}.")
    changes = {**options, "check_invariants": check}
    blocks = plan_side(run, changes)[0].num_gpu_blocks_override
    if blocks > MOST_BLOCKS:
        raise ConfigError(f"The playground has at most {MOST_BLOCKS} blocks; got {blocks}.")
    rerun(run, changes, path)
    recording = path.read_text(encoding="utf-8")
    return {"figures": measure_recording(path).figures, "recording": recording}


def run_of_arrivals(path: Path, base: RecordedRun) -> RecordedRun:
    """Read the arrivals of a file. `base` gives the model, the options and the step times.

    Raises `SimulationError` if the file cannot be parsed or asks for too much.
    """
    arrivals = read_arrivals(path)
    lengths = [arrival.prompt_tokens + arrival.output_tokens for arrival in arrivals]
    if len(arrivals) > MOST_REQUESTS or sum(lengths) > MOST_TOKENS:
        raise SimulationError(
            f"These are {len(arrivals)} requests with {sum(lengths)} tokens, but the playground"
            f" serves at most {MOST_REQUESTS} with {MOST_TOKENS}: use `minivllm simulate` for more."
        )
    requests, pieces = [], {}
    for number, asked in enumerate(arrivals):
        prompt, output = asked.prompt(number), [number + 1] * asked.output_tokens
        request = RecordedRequest(f"r{number}", prompt, None, [output], asked.at, asked.priority)
        requests.append(request)
        pieces |= dict.fromkeys(prompt + output, DOT)
    longest = max(*lengths, base.header.max_model_len)
    header = structs.replace(base.header, max_model_len=longest)
    return RecordedRun(header, requests, pieces, base.step_times, [])
