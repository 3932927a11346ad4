"""The plain modules that exercises ask for agree with the engine."""

import pytest

from minivllm.events.recording.lines import decode_line
from minivllm.lab.compare.measure import measure_latencies
from minivllm.lessons.checker.cases.toy import ToyRunner
from minivllm.lessons.checker.cases.traces import run_trace
from minivllm.lessons.shown import latencies
from minivllm.lessons.shown.flat_batch import ScheduledChunk, flatten
from minivllm.runtime.input_batch import InputBatch

SIZE = 3
OPTIONS = {
    "num_blocks": 9, "block_size": SIZE, "max_num_seqs": 3, "max_num_batched_tokens": 7,
    "enable_prefix_caching": False,
}  # fmt: skip


def _trace(num_samples: int) -> dict:
    """Chunked prompts, decodes beside them, and memory for fewer tokens than all want."""
    shapes = [(9, 4, 6), (2, 6, 5), (5, 1, 6), (0, 6, 4)]
    requests = [
        {"alike": alike, "own": own, "max_tokens": most, "arrives": at, "letter": 1}
        for at, (alike, own, most) in enumerate(shapes)
    ]
    requests[1]["n"] = num_samples
    return {**OPTIONS, "requests": requests}


def test_the_flat_batch_has_the_arrays_of_the_engines_input_batch(monkeypatch):
    batch, execute, num_rows = InputBatch(3, 32, SIZE), ToyRunner.execute_model, []

    def compare(runner, plan, *rest):
        given = batch.prepare(plan)
        chunks = []
        for item in plan.scheduled:
            table = [block.block_id for block in item.sequence.block_table]
            tokens = list(item.sequence.token_ids)
            chunks.append(ScheduledChunk(tokens, item.start, item.num_tokens, table))
        ours = flatten(chunks, SIZE)
        assert ours.token_ids == given.token_ids.tolist()
        assert ours.positions == given.positions.tolist()
        assert ours.query_start_loc == given.attention.query_start_loc.tolist()
        assert ours.seq_lens == given.attention.seq_lens.tolist()
        assert ours.slot_mapping == given.attention.slot_mapping.tolist()
        assert ours.sampling_rows == given.sampling_rows.tolist()
        num_rows.append((len(chunks), len(ours.token_ids)))
        return execute(runner, plan, *rest)

    monkeypatch.setattr(ToyRunner, "execute_model", compare)
    lines = list(run_trace(_trace(num_samples=1)))
    assert lines[-1].startswith("{"), "the run ended"
    assert any(seqs > 1 and rows > seqs for seqs, rows in num_rows), "chunks beside decodes"


def test_latencies_of_a_recording_are_those_of_compare():
    lines = list(run_trace(_trace(num_samples=2)))
    assert any('"request.preempted"' in line for line in lines)
    measured = measure_latencies(decode_line(line.encode())[1][0] for line in lines)
    requests = latencies.read_times(lines).values()
    ttfts = [latencies.time_to_first_token(request) for request in requests]
    gaps = [gap for request in requests for gap in latencies.inter_token_latencies(request)]
    assert sorted(ttfts) == pytest.approx(sorted(measured.time_to_first_token))
    assert sorted(gaps) == pytest.approx(sorted(measured.between_tokens))
