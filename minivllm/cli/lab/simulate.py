"""`minivllm simulate`: predicts latency and throughput under load, without a model and servers.

    minivllm simulate --requests 100000 --arrival poisson --replicas 4 --router least-loaded --json

Scheduler and KV cache are the engine's own. Only the time of a step comes from a formula, which is
fitted to measured steps. Every report states the error of the formula on steps outside the fit.
"""

import argparse
import math
from functools import partial
from pathlib import Path

from minivllm.cli import options
from minivllm.cli.recording import recording
from minivllm.config import EngineConfig
from minivllm.errors import ConfigError
from minivllm.lab.common.report import JSON_HELP, describe_environment, listed, positive_int
from minivllm.lab.plot import check_plot
from minivllm.lab.simulate.arrivals import Arrival, read_arrivals
from minivllm.lab.simulate.fit import Fit, fit_step_times
from minivllm.lab.simulate.measure import parse_goodput, plot_simulations
from minivllm.lab.simulate.replica import Replica
from minivllm.lab.simulate.report import print_answers, run_all, setups
from minivllm.lab.simulate.run import ROUTERS, comfortable_rate
from minivllm.lab.simulate.step_times import read_step_times
from minivllm.lab.simulate.workload import BURSTY, CrowdOptions, check_fits, draw_crowd

_MANY = " (separate several values with commas to compare them)"
_SHARED = {
    "block_size": 16, "max_model_len": 8192, "enable_prefix_caching": None,
    "enable_chunked_prefill": True, "speculative_config": None,
}  # fmt: skip
"""Options that all configurations have in common, and their defaults."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_crowd(parser.add_argument_group("requests"))
    _add_servers(parser.add_argument_group("servers"))
    out = parser.add_argument_group("results")
    add = partial(options.add_option, out)
    steps = "output of `minivllm bench step --json` (default: steps measured on one CPU)"
    add("--step-times FILE", steps, type=Path)
    targets = "latency targets, as in `ttft:500 tpot:50`; also e2el"
    add("--goodput METRIC:MS", targets, nargs="+", default=[])
    add("--plot FILE", "draw the results into FILE (.svg, .png, .pdf)", type=Path)
    add("--record FILE", "record the first replica, for `minivllm replay FILE`")
    add("--json", JSON_HELP)


def _add_crowd(group: argparse._ArgumentGroup) -> None:
    add = partial(options.add_option, group)
    count = f"number of requests (default: {CrowdOptions().num_prompts}, or all in a file)"
    kind = {"dest": "num_prompts", "type": positive_int, "default": argparse.SUPPRESS}
    add("--requests --num-prompts N", count, **kind)
    when = "when requests arrive: poisson, bursty, or a file of JSON lines or CSV"
    add("--arrival ARRIVAL", when, default="poisson")
    rate = "requests per second, or inf (default: 80 %% of what the servers can handle)"
    add("--rate --request-rate X", rate + _MANY, type=listed(float))
    options.add_fields(group, CrowdOptions, leave_out={"num_prompts", "seed"})
    add("--seed SEED", "seed for all random values", type=int, default=0)


def _add_servers(group: argparse._ArgumentGroup) -> None:
    of_engine = options.field_docs(EngineConfig)
    docs = {name: options.describe(doc, "") for name, doc in of_engine.items()}

    def several(name: str, read: type, default: object, help_: str = "") -> None:
        about = f"{help_ or docs[name]} (default: {default}){_MANY}"
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(flag, type=listed(read), default=[default], help=about)

    several("replicas", positive_int, 1, "number of engines that share the requests")
    only = "number of engines that {}, in place of `--replicas`"
    several("prefill_replicas", positive_int, 0, only.format("only compute prompts"))
    several("decode_replicas", positive_int, 0, only.format("load computed prompts and generate"))
    link = "bandwidth between the two, for blocks of SmolLM2-135M in float32"
    several("gigabytes_per_second", float, 25.0, link)
    how = f"how requests are assigned to replicas: {', '.join(ROUTERS)}"
    several("router", str, "random", how)
    several("scheduling_policy", str, "fcfs")
    several("batching", str, "continuous")
    several("kv_cache_allocator", str, "paged")
    several("max_num_batched_tokens", positive_int, 512)
    several("max_num_seqs", positive_int, 16)
    # This many blocks of SmolLM2-135M in float32 fit into 1 GiB, the engine's default on a CPU.
    several("num_gpu_blocks_override", positive_int, 1456)
    options.add_fields(group, EngineConfig, _SHARED, leave_out=of_engine.keys() - _SHARED.keys())
    right = "with drafts: probability that a draft is right if those before it are"
    options.add_option(group, "--acceptance-rate X", right + _MANY, type=listed(float))


def run(args: argparse.Namespace) -> int:
    if args.plot is not None:
        check_plot(args.plot)
    step_times = read_step_times(args.step_times)
    fit = fit_step_times(step_times.points)
    goodput = parse_goodput(args.goodput, fit)
    common = {name: getattr(args, name, usual) for name, usual in _SHARED.items()}
    crowd = _crowd(args, common["max_model_len"])
    check_fits(crowd, common["max_model_len"])
    all_setups = setups(args, common, _rates(args, crowd, common, fit))
    if args.record is not None and len(all_setups) > 1:
        many = f"these options make {len(all_setups)}: give one value for each"
        raise ConfigError(f"--record needs a single configuration, but {many}.")
    with recording(args.record) as record:

        def watch(replica: Replica) -> None:
            record(replica.log_header(f"simulated: {step_times.label}"), replica.bus.subscribe)

        simulated = run_all(all_setups, crowd, fit, goodput, watch)
        result = {
            **{name: getattr(args, name) for name in ("arrival", "seed", "record")},
            "requests": len(crowd),
            "goodput": goodput,
            "step_times": step_times.label,
            "plot": None if args.plot is None else str(args.plot),
            **describe_environment("numpy"),
        }
        print_answers(simulated, fit, step_times, result, args.json)
        if args.plot is not None:
            title = f"{len(crowd):,} requests, steps of {step_times.label}"
            plot_simulations(title, {trial.name: trial.replicas for trial in simulated}, args.plot)
    return 0


def _crowd(args: argparse.Namespace, max_model_len: int) -> list[Arrival]:
    """Return the requests: from a file, or drawn at a mean rate of one request per second."""
    given = options.given_fields(args, CrowdOptions)
    if args.arrival not in ("poisson", "bursty"):
        drawn = [name for name in given if name not in ("num_prompts", "seed")]
        if drawn or args.rate is not None:
            flag = [*drawn, "rate"][0].replace("_", "-")
            raise ConfigError(f"The requests come from the file: leave out --{flag}.")
        return read_arrivals(Path(args.arrival))[: given.get("num_prompts")]
    if args.arrival == "poisson" and given.get("burstiness", 1.0) != 1.0:
        raise ConfigError("A Poisson process has no --burstiness: use --arrival bursty.")
    usual = {"burstiness": BURSTY} if args.arrival == "bursty" else {}
    return draw_crowd(CrowdOptions(**usual | given), max_model_len)


def _rates(
    args: argparse.Namespace, crowd: list[Arrival], common: dict[str, object], fit: Fit
) -> list[float | None]:
    if args.arrival not in ("poisson", "bursty"):
        return [None]
    if args.rate is not None:
        return args.rate
    # The first configuration's rate is used for all.
    first = setups(args, common, [math.inf])[0]
    return [comfortable_rate(crowd, first, fit)]
