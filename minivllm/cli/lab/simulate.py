"""`minivllm simulate`: predicts latency and throughput under load, without a model and servers.

    minivllm simulate --requests 100000 --arrival poisson --replicas 4 --router least-loaded --json

Scheduler and KV cache are the engine's own. Only the time of a step comes from a formula, which is
fitted to measured steps. Every report states the error of the formula on steps outside the fit.
"""

import argparse
import math
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from minivllm.cli.options import ReadSpeculativeConfig, describe, field_docs
from minivllm.cli.recording import recording
from minivllm.config import Batching, EngineConfig, KVCacheAllocator, SchedulingPolicy
from minivllm.errors import ConfigError
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import add_json_argument, listed, positive_int, request_rate
from minivllm.lab.plot import check_plot
from minivllm.lab.simulate.arrivals import Arrival, read_arrivals
from minivllm.lab.simulate.configurations import comfortable_rate, one_of, setups
from minivllm.lab.simulate.fit import Fit, fit_step_times
from minivllm.lab.simulate.measure import parse_goodput
from minivllm.lab.simulate.plot import plot_simulations
from minivllm.lab.simulate.replica import Replica
from minivllm.lab.simulate.report import Simulated, print_answers, run_all
from minivllm.lab.simulate.run import ROUTERS
from minivllm.lab.simulate.step_times import StepTimes, read_step_times
from minivllm.lab.simulate.workload import (
    BURSTY,
    CrowdOptions,
    Lengths,
    check_fits,
    draw_crowd,
)

_MANY = " (separate several values with commas to compare them)"
_CROWD_HELP = {
    "random_input_len": "mean number of tokens in a prompt",
    "random_output_len": "mean number of tokens in an answer",
    "random_range_ratio": "lengths are drawn uniformly from mean * (1 - X) to mean * (1 + X)",
    "length_sigma": "length of the tail: standard deviation of the logarithm of a length",
    "random_prefix_len": "tokens before each prompt, shared by all requests of a prefix group",
    "prefix_groups": "number of different shared prefixes",
    "urgent_share": (
        "fraction of requests with priority 0; the others have priority 1 (with --scheduling-policy"
        " priority)"
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_crowd(parser.add_argument_group("requests"))
    _add_servers(parser.add_argument_group("servers"))
    out = parser.add_argument_group("results")
    out.add_argument(
        "--step-times",
        type=Path,
        metavar="FILE",
        help="output of `minivllm bench step --json` (default: steps measured on one CPU)",
    )
    out.add_argument(
        "--goodput",
        nargs="+",
        default=[],
        metavar="METRIC:MS",
        help="latency targets, as in `ttft:500 tpot:50`; also e2el",
    )
    out.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the results into FILE (.svg, .png, .pdf)"
    )
    out.add_argument(
        "--record", metavar="FILE", help="record the first replica, for `minivllm replay FILE`"
    )
    add_json_argument(out)


def _add_crowd(group: argparse._ArgumentGroup) -> None:
    defaults = CrowdOptions()
    group.add_argument(
        "--requests", "--num-prompts", type=positive_int, dest="num_prompts", metavar="N",
        help=f"number of requests (default: {defaults.num_prompts}, or all in a file)",
    )  # fmt: skip
    group.add_argument(
        "--arrival",
        default="poisson",
        metavar="ARRIVAL",
        help="when requests arrive: poisson, bursty, or a file of JSON lines or CSV",
    )
    group.add_argument(
        "--rate", "--request-rate", type=listed(request_rate), metavar="X",
        help="requests per second, or inf (default: 80 %% of what the servers can handle)"
        + _MANY,
    )  # fmt: skip
    group.add_argument(
        "--burstiness",
        type=float,
        metavar="X",
        help="of the gaps between requests: 1 is poisson, a lower value makes bursts (bursty:"
        f" {BURSTY})",
    )
    group.add_argument(
        "--length-distribution", choices=get_args(Lengths), default=defaults.length_distribution,
        help="distribution of lengths around their means (default: %(default)s)",
    )  # fmt: skip
    for name, help_ in _CROWD_HELP.items():
        default = getattr(defaults, name)
        group.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default,
            metavar="N" if isinstance(default, int) else "X",
            help=f"{help_} (default: %(default)s)",
        )  # fmt: skip
    group.add_argument(
        "--seed", type=int, default=0, help="seed for all random values (default: %(default)s)"
    )


def _add_servers(group: argparse._ArgumentGroup) -> None:
    docs = {name: describe(doc, "") for name, doc in field_docs(EngineConfig).items()}

    def add(name: str, read: type, default: object, help_: str) -> None:
        group.add_argument(
            name, type=listed(read), default=[default], help=f"{help_} (default: {default}){_MANY}"
        )

    add("--replicas", positive_int, 1, "number of engines that share the requests")
    add(
        "--router",
        one_of(ROUTERS),
        "random",
        f"how requests are assigned to replicas: {', '.join(ROUTERS)}",
    )
    policies = one_of(get_args(SchedulingPolicy))
    add("--scheduling-policy", policies, "fcfs", docs["scheduling_policy"])
    for name, known, default in (
        ("batching", Batching, "continuous"),
        ("kv_cache_allocator", KVCacheAllocator, "paged"),
    ):
        flag = f"--{name.replace('_', '-')}"
        add(flag, one_of(get_args(known)), default, docs[name])
    add("--max-num-batched-tokens", positive_int, 512, docs["max_num_batched_tokens"])
    add("--max-num-seqs", positive_int, 16, docs["max_num_seqs"])
    # This many blocks of SmolLM2-135M in float32 fit into 1 GiB, the engine's default on a CPU.
    add("--num-gpu-blocks-override", positive_int, 1456, docs["num_gpu_blocks_override"])
    for name, default in (("block_size", 16), ("max_model_len", 8192)):
        help_ = f"{docs[name]} (default: {default})"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=positive_int,
            default=default,
            metavar="N",
            help=help_,
        )
    group.add_argument(
        "--speculative-config",
        action=ReadSpeculativeConfig,
        metavar="JSON",
        help=f"{docs['speculative_config']}; needs --acceptance-rate",
    )
    group.add_argument(
        "--acceptance-rate",
        type=listed(float),
        metavar="X",
        help=f"probability that a draft is right if those before it are{_MANY}",
    )
    for name, default in (("enable_prefix_caching", None), ("enable_chunked_prefill", True)):
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(
            flag, action=argparse.BooleanOptionalAction, default=default, help=docs[name]
        )


def run(args: argparse.Namespace) -> int:
    if args.plot is not None:
        check_plot(args.plot)
    step_times = read_step_times(args.step_times)
    fit = fit_step_times(step_times.points)
    goodput = parse_goodput(args.goodput, fit)
    crowd = _crowd(args)
    check_fits(crowd, args.max_model_len)
    names = (
        "block_size", "max_model_len", "enable_prefix_caching", "enable_chunked_prefill",
        "speculative_config",
    )  # fmt: skip
    common = {name: getattr(args, name) for name in names}
    all_setups = setups(args, common, _rates(args, crowd, common, fit))
    if args.record is not None and len(all_setups) > 1:
        raise ConfigError(
            "--record needs a single configuration, but these options make"
            f" {len(all_setups)}: give one value for each."
        )
    with ExitStack() as recordings:

        def record(replica: Replica) -> None:
            header = replica.log_header(f"simulated: {step_times.label}")
            recordings.enter_context(recording(args.record, header, replica.subscribe))

        simulated = run_all(all_setups, crowd, fit, goodput, record)
        _answer(args, crowd, simulated, fit, step_times, goodput)
    return 0


def _answer(
    args: argparse.Namespace,
    crowd: list[Arrival],
    simulated: list[Simulated],
    fit: Fit,
    step_times: StepTimes,
    goodput: Mapping[str, float],
) -> None:
    result = {
        "arrival": args.arrival,
        "requests": len(crowd),
        "seed": args.seed,
        "goodput": goodput,
        "step_times": step_times.label,
        "record": args.record,
        "plot": None if args.plot is None else str(args.plot),
        **describe_environment("numpy"),
    }
    print_answers(simulated, fit, step_times, result, args.json)
    if args.plot is not None:
        plot_simulations(
            f"{len(crowd):,} requests, steps of {step_times.label}",
            [(one.name, one.replicas) for one in simulated],
            args.plot,
        )


def _crowd(args: argparse.Namespace) -> list[Arrival]:
    """Return the requests: from a file, or drawn at a mean rate of one request per second."""
    if args.arrival not in ("poisson", "bursty"):
        if args.rate is not None or args.burstiness is not None:
            raise ConfigError(
                "The arrival times come from the file: leave out --rate and --burstiness."
            )
        defaults = CrowdOptions()
        for name in (*_CROWD_HELP, "length_distribution"):
            if getattr(args, name) != getattr(defaults, name):
                raise ConfigError(
                    f"The requests come from the file: leave out --{name.replace('_', '-')}."
                )
        return read_arrivals(Path(args.arrival))[: args.num_prompts]
    if args.arrival == "poisson" and args.burstiness not in (None, 1.0):
        raise ConfigError(
            "A Poisson process has a burstiness of 1: use --arrival bursty, or leave out"
            " --burstiness."
        )
    usual = BURSTY if args.arrival == "bursty" else 1.0
    given = {name: getattr(args, name) for name in (*_CROWD_HELP, "length_distribution", "seed")}
    burstiness = usual if args.burstiness is None else args.burstiness
    count = args.num_prompts or CrowdOptions().num_prompts
    return draw_crowd(
        CrowdOptions(num_prompts=count, burstiness=burstiness, **given), args.max_model_len
    )


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
