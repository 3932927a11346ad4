"""Our side of a twin run: minivllm's scheduler with the tokens of a trace."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.request import Sequence
from minivllm.engine.engine import LLMEngine
from minivllm.events.recording.log import LogWriter
from minivllm.events.types import Event
from minivllm.lab.twin.rules import Intended
from minivllm.lab.twin.trace import TwinRequest, TwinTrace, play
from minivllm.lessons.scenarios.scripted import ScriptedRunner, ScriptedTokenizer
from minivllm.sampling_params import SamplingParams


def run_ours(trace: TwinTrace, path: Path, rules: Iterable[Intended] = ()) -> None:
    """Serve the trace with minivllm's scheduler, and record it.

    rules: of vLLM, which the scheduler follows
    """
    outputs = {request.name: request.output_token_ids for request in trace.requests}

    def next_token(sequence: Sequence) -> int:
        return outputs[sequence.request.request_id][sequence.num_output_tokens]

    num_blocks = {"num_gpu_blocks_override": trace.num_blocks}
    config = EngineConfig(model="none", **num_blocks, **trace.options)
    runner = ScriptedRunner(trace.num_blocks, config.max_model_len, next_token)
    tokenizer = ScriptedTokenizer(lambda token_id: "", vocab_size=1 << 18)
    engine = LLMEngine(config, runner, tokenizer, clock=VirtualClock())
    for rule in rules:
        rule.follow(engine.core.scheduler)

    def add(request: TwinRequest) -> None:
        num_tokens = len(request.output_token_ids)
        params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
        prompt = {"prompt_token_ids": request.prompt_token_ids}
        engine.add_request(request.name, prompt, params, request.priority)

    with LogWriter(path, engine.log_header()) as writer:
        engine.subscribe(lambda event: writer.write(_as_in_vllm(event)))
        play(trace, add, engine.abort_request, engine.step, engine.has_unfinished_requests)


def _as_in_vllm(event: Event) -> Event:
    """A sequence has the name of its request, so that the dashboard finds it on both sides."""
    names = {name: getattr(event, name, None) for name in ("seq_id", "victim_of")}
    return replace(event, **{name: id.removesuffix(".0") for name, id in names.items() if id})
