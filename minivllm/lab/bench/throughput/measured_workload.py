"""`measure`: load the engines once, run workloads one after another, and return JSON objects.

Every engine gets the same checkpoint, dtype, threads and batch size. llama.cpp cannot read
safetensors, so it gets the weights in a temporary GGUF file, or the GGUF file that we read too.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minivllm.config import SpeculativeConfig
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.peer_process import PeerProcess
from minivllm.lab.bench.throughput.peer_side.peer_main import preloaded_libraries
from minivllm.lab.bench.throughput.peers import BenchEngine, MinivllmEngine, TransformersPeer
from minivllm.lab.bench.throughput.rounds import SETTLE_S, PeerRounds, Rounds, measure_rounds
from minivllm.lab.bench.throughput.workloads import MAX_NUM_SEQS, WorkloadSpec
from minivllm.lab.common.environment import describe_environment, peak_rss_bytes, set_num_threads
from minivllm.lab.common.report import progress_bar
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE
from minivllm.runtime.store.model_store import resolve_for_transformers, resolve_model

PEERS = (TransformersPeer.name, "vllm", "llama.cpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    model: str
    dtype: str
    seed: int
    num_rounds: int
    num_threads: int
    peers: dict[str, str | None]
    """Name of a peer -> its Python interpreter; None means this process."""
    speculative_config: SpeculativeConfig | None = None
    """Of our engine; the peers do not draft."""
    formats: list[str] = field(default_factory=list)
    """Our engine is also measured with the weights in these formats."""
    same_gguf: bool = False
    """Whether llama.cpp reads the model's own GGUF file, with its usual float16 KV cache."""


def measure(specs: list[WorkloadSpec], settings: WorkloadSettings) -> list[dict[str, Any]]:
    """Return the JSON object of each workload.

    Without peers, `peers` is empty, and the values of the first peer are null.
    """
    import torch

    set_num_threads(settings.num_threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if settings.same_gguf:
        checkpoint = _own_gguf(settings.model)
    else:  # without a peer, nothing needs a GGUF file's weights in float32
        resolve = resolve_for_transformers if settings.peers else resolve_model
        checkpoint = resolve(settings.model)
    with ExitStack() as stack:
        peers: list[BenchEngine] = []
        # Start peer processes first, so that our engine is not loaded while they load.
        for name, python in settings.peers.items():
            if python is None:
                peers.append(TransformersPeer(checkpoint, settings.dtype, device))
            else:
                peers.append(
                    stack.enter_context(_peer_process(name, python, checkpoint, settings, specs))
                )
        for format_ in settings.formats:
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            peers.append(_engine_in(format_, Path(scratch), settings, device))
        engine = MinivllmEngine(
            settings.model,
            settings.dtype,
            device,
            speculative_config=settings.speculative_config,
        )
        settle_s = SETTLE_S if any(settings.peers.values()) else 0.0
        results = []
        with progress_bar() as progress:
            for spec in specs:
                rounds = measure_rounds(
                    spec,
                    settings.seed,
                    engine.vocab_size,
                    settings.num_rounds,
                    engine,
                    peers,
                    progress,
                    settle_s,
                )
                results.append(_result(spec, settings, device, rounds, peers))
    return results


def _own_gguf(model: str) -> Path:
    """Return the GGUF file that `model` runs from."""
    path = resolve_model(model) / GGUF_FILE
    if not path.is_file():
        raise BenchError(
            f"--peer-gguf same needs a model from a GGUF file, and {model} is not one: leave it"
            " out."
        )
    return path


def _engine_in(
    format_: str, directory: Path, settings: WorkloadSettings, device: str
) -> MinivllmEngine:
    """Return our engine with the model written to `directory` in another format."""
    from minivllm.lab.bench.throughput.weights_gguf import INT8, write_stored_copy

    write_stored_copy(resolve_model(settings.model), directory, format_)
    quantization = INT8 if format_ == INT8 else None
    return MinivllmEngine(
        str(directory), settings.dtype, device, name=format_, quantization=quantization
    )


@contextmanager
def _peer_process(
    name: str, python: str, weights: Path, settings: WorkloadSettings, specs: list[WorkloadSpec]
) -> Iterator[PeerProcess]:
    longest = max(
        spec.shared_prefix_len + spec.prompt_len[1] + spec.output_len[1] for spec in specs
    )
    wanted = {
        "model": str(weights),
        "dtype": "float16" if settings.same_gguf else settings.dtype,
        "num_threads": settings.num_threads,
        "max_num_seqs": MAX_NUM_SEQS,
        "max_model_len": longest,
    }
    with tempfile.TemporaryDirectory() as scratch:
        if name == "llama.cpp" and not settings.same_gguf:
            from minivllm.lab.bench.throughput.weights_gguf import write_gguf

            path = Path(scratch) / "weights.gguf"
            write_gguf(weights, path, settings.dtype)
            wanted["model"] = str(path)
        with PeerProcess(name, python, wanted) as peer:
            yield peer


def _result(
    spec: WorkloadSpec,
    settings: WorkloadSettings,
    device: str,
    rounds: Rounds,
    peers: list[BenchEngine],
) -> dict[str, Any]:
    num_sequences = spec.num_requests * settings.num_rounds
    peer_results = [
        _peer_result(rounds, measured, peer, num_sequences)
        for measured, peer in zip(rounds.peers, peers, strict=True)
    ]
    # The first peer's values also appear at the top level: most comparisons have only one peer.
    first = peer_results[0] if peer_results else {}
    return {
        "bench": "throughput",
        "workload": spec.name,
        "requests": spec.num_requests,
        "output_tokens": rounds.output_tokens[0],
        "seed": settings.seed,
        "model": settings.model,
        "dtype": settings.dtype,
        "device": device,
        "peer_gguf": "same" if settings.same_gguf else None,
        "threads": settings.num_threads,
        "rounds": settings.num_rounds,
        "speculative_config": settings.speculative_config and asdict(settings.speculative_config),
        "tokens_per_s": rounds.tokens_per_s(rounds.runs),
        "runs": rounds.runs,
        "peer": first.get("name"),
        "peer_tokens_per_s": first.get("tokens_per_s"),
        "peer_runs": first.get("runs"),
        "ratio": first.get("ratio"),
        "identical_sequences": first.get("identical_sequences"),
        "differences": first.get("differences"),
        "peers": peer_results,
        "preloaded": preloaded_libraries(),
        # Peak of this process, with any peers in it. `bench memory` measures our engine alone.
        "peak_rss_bytes": peak_rss_bytes(),
        **describe_environment("torch", "transformers"),
    }


def _peer_result(
    rounds: Rounds, measured: PeerRounds, peer: BenchEngine, num_sequences: int
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": measured.name,
        "tokens_per_s": rounds.tokens_per_s(measured.runs),
        "runs": measured.runs,
        "ratio": rounds.ratio(measured),
        "ratios": rounds.ratios(measured),
        "identical_sequences": 1 - len(measured.differences) / num_sequences,
        "differences": [asdict(difference) for difference in measured.differences],
    }
    if isinstance(peer, PeerProcess):
        result |= {
            "versions": peer.versions,
            "preloaded": peer.preloaded,
            "peak_rss_bytes": peer.peak_rss_bytes,
        }
    return result
