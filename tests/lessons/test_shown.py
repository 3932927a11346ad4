"""What lessons compute and draw themselves agrees with the engine, the checkpoint and ggml."""

import gguf
import numpy as np
import pytest
import torch

from minivllm.events import types as ev
from minivllm.kernels.reference_ops import dequantize_heads, quantize_heads
from minivllm.lessons.shown import drawings, quantize
from minivllm.lessons.shown.roofline import H100, points, weights_per_pass
from minivllm.lessons.teacher.prompts import RULES, STORIES
from minivllm.runtime.checkpoint.checkpoint import read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.store.model_store import resolve_model


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(0))


def test_a_packed_block_has_the_bytes_of_ggml_and_the_weights_of_the_engine(numbers):
    packed = [quantize.pack_block(quantize.quantize_block(row)) for row in numbers.tolist()]
    theirs = gguf.quants.quantize(numbers.numpy(), gguf.GGMLQuantizationType.Q4_1)
    assert packed == [row.tobytes() for row in theirs]
    read = np.array(
        [quantize.dequantize_block(quantize.unpack_block(data)) for data in packed], np.float32
    )
    assert np.array_equal(
        read, FORMATS["q4_1"].split(torch.from_numpy(theirs)).dequantize().numpy()
    )


def test_a_head_of_the_int8_cache_has_the_numbers_of_the_engine(numbers):
    numbers[3] = 0.0
    theirs, scales = quantize_heads(numbers)
    own = [quantize.quantize_head(row) for row in numbers.tolist()]
    assert [head.numbers for head in own] == theirs.tolist()
    assert [head.scale for head in own] == pytest.approx(scales.tolist())
    cache = quantize.Int8Cache(num_slots=2, num_heads=64)
    cache.write(1, numbers.tolist())
    assert np.allclose(cache.read(1), dequantize_heads(theirs, scales))


def test_every_matrix_of_the_checkpoint_counts_except_a_lookup_embedding():
    directory = resolve_model("tiny-random")
    matrices = {
        name: tensor.numel() for name, tensor in stream_weights(directory) if tensor.dim() == 2
    }
    matrices.pop("model.embed_tokens.weight")
    config = read_model_config(directory)
    assert not config.tie_word_embeddings
    assert weights_per_pass(config) == sum(matrices.values())


def test_measured_kernels_are_below_the_roof():
    for point in points():
        bandwidth = point.operations_per_byte * H100.bytes_per_second
        assert point.operations_per_second <= min(bandwidth, H100.operations_per_second)


def test_a_table_and_its_pool_name_the_owner_of_every_block(lesson_shelf):
    engine = lesson_shelf.engine({"num_gpu_blocks_override": 12, "block_size": 4})
    for name in ("ada", "bob"):
        engine.add(name, engine.tokens(STORIES[name], 6), max_tokens=8)
    engine.step(4)
    _, *rows = drawings.table_and_pool(engine, "ada")
    entries = [tuple(map(int, row[7:15].split("->"))) for row in rows if "->" in row]
    assert entries == list(enumerate(engine.table("ada")))
    pool = " ".join(row[18:] for row in rows).split()
    owners = dict(zip(map(int, pool[::2]), pool[1::2], strict=True))
    tables = {"a": engine.table("ada"), "b": engine.table("bob")}
    assert owners == dict.fromkeys(range(engine.num_blocks), "·") | {
        block: letter for letter, table in tables.items() for block in table
    }


def test_a_chain_has_one_hash_for_each_full_block_of_a_prompt(lesson_shelf):
    engine = lesson_shelf.engine({"num_gpu_blocks_override": 12, "block_size": 4})
    engine.add("ada", engine.tokens(RULES, 11), max_tokens=8)
    engine.step()
    registered = [event.hash[:4] for event in engine.events_of(ev.BlockHashed)]
    assert drawings.prompt_hashes(engine, "ada") == registered and len(registered) == 2


def test_free_slots_in_two_gaps_do_not_make_one_long_run():
    memory = drawings.FREE * 80
    for letter, size in {"a": 24, "b": 16, "c": 24, "d": 16}.items():
        memory = drawings.first_fit(memory, letter, size)
    memory = memory.replace("b", drawings.FREE).replace("d", drawings.FREE)
    assert (memory.count(drawings.FREE), drawings.longest_run(memory)) == (32, 16)
    assert drawings.first_fit(memory, "e", 24) is None
    memory = memory.replace("a", drawings.FREE)
    assert drawings.first_fit(memory, "e", 12).startswith("e" * 12 + drawings.FREE), "the first gap"
