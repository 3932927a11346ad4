"""Promise: each kernel computes what its plain reference computes.

`kernels/reference.py` and `kernels/reference_ops.py` say what attention, the KV cache and the
decoder's small operations are: torch, in float64, one token and one head at a time. Here every
kernel solves the same random problems as its reference. The kernels in Triton run interpreted where
there is no GPU; those in C are compiled for this processor.

A kernel that reads too much cannot pass by luck: slots without a token hold NaN, unused entries of
a block table lead outside the cache, and the blocks of a sequence are in random order. One that
writes too much cannot pass either, because the whole cache is compared afterwards.

`tests/more/kernels/test_every_shape.py` runs the same tests for all other shapes.
"""

from types import ModuleType, SimpleNamespace

import pytest
import torch
from support.model.attention_cases import Seq
from support.model.backend_cases import CpuCase, as_backend_layout
from support.model.needs import INTERPRETED, NO_TRITON, cpu_ops
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.model.paged_cases import (
    DEVICE,
    FOUR_SHAPES,
    PagedCase,
    Shape,
    assert_close,
    edge_lengths,
    new_seed,  # noqa: F401  (a fixture)
)
from support.model.random_weights import random_weight

from minivllm.kernels import reference, reference_ops
from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model.decoder import Experts
from minivllm.runtime.model.linear_backend import CpuMatrix, TorchMatrix
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight, plain_weight

pytestmark = [] if INTERPRETED else [pytest.mark.gpu]
for_four_shapes = pytest.mark.parametrize("shape", FOUR_SHAPES, ids=str)
for_each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
NAN = float("nan")


# ---- in Triton ----


@pytest.fixture
def triton() -> ModuleType:
    """The attention kernels, by name."""
    return pytest.importorskip("support.model.triton_kernels", reason=NO_TRITON)


@for_four_shapes
@pytest.mark.parametrize(
    "version", ["naive", "grouped", "split", "static", "unified", "unified, split"]
)
def test_every_version_of_decode_attention_equals_the_reference(triton, version, shape, seed):
    """One query for each sequence, whose context ends around the end of a block, or is empty."""
    case = PagedCase(shape, [*edge_lengths(shape.block_size), 0], seed)
    query = case.decode_query()
    actual = triton.DECODE[version](*case.decode_arguments(query))
    assert_close(actual, case.decode_expected(query), shape.dtype)
    assert actual[-1].abs().max() == 0.0, "an empty context gives zeros"


@for_four_shapes
@pytest.mark.parametrize("kernel", ["prefill", "unified", "unified, split"])
def test_chunks_and_decodes_in_one_launch_equal_the_reference(triton, kernel, shape, seed):
    """Whole prompts, chunks with a context before them, and decodes between them."""
    size = shape.block_size
    case = PagedCase(shape, [1, size - 1, 45, size + 1, 41], seed)
    actual, expected = triton.run_chunks(triton.CHUNKS[kernel], case, [1, size - 1, 1, 2, 19])
    assert_close(actual, expected, shape.dtype)


@for_four_shapes
def test_the_attention_mass_of_every_block_equals_the_reference(triton, shape, seed):
    """The share of a query's attention that goes to each block of its context."""
    case = PagedCase(shape, [*edge_lengths(shape.block_size), 0], seed)
    exact = case.decode_query()
    query, key_cache, _, *others = case.decode_arguments(exact)
    for window in (0, 21):
        expected = reference.attention_mass(
            exact, case.exact_caches[0], case.block_tables, case.seq_lens, shape.scale, window
        )
        mass = triton.attention_mass(query, key_cache, *others, window)
        assert_close(mass, expected, shape.dtype)


@pytest.mark.parametrize("window", [1, 21])
@pytest.mark.parametrize("name", ["grouped", "split", "static", "unified", "unified, split"])
def test_decodes_with_a_window_equal_the_reference_and_read_nothing_before_it(
    triton, name, window, seed
):
    case = PagedCase(Shape(80, 3, 8), [1, 20, 22, 150, 0], seed)
    query = case.decode_query()
    expected = case.decode_expected(query, window)
    case.forget([max(length - window, 0) for length in case.lengths])
    actual = triton.DECODE[name](*case.decode_arguments(query), window=window)
    assert_close(actual, expected, torch.float32)


@pytest.mark.parametrize("window", [21, 40])
@pytest.mark.parametrize("kernel", ["prefill", "unified", "unified, split"])
def test_chunks_with_a_window_equal_the_reference_and_read_nothing_before_it(
    triton, kernel, window, seed
):
    case = PagedCase(Shape(64, 3, 8, num_kv_heads=1), [1, 7, 90, 9, 70], seed)
    actual, expected = triton.run_chunks(triton.CHUNKS[kernel], case, [1, 7, 1, 2, 33], window)
    assert_close(actual, expected, torch.float32)


class NewTokens:
    """Heads and angles of ten tokens, their slots, and caches full of NaN, for every dtype."""

    def __init__(self, shape: Shape, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        kv_heads, size, num_blocks = shape.num_kv_heads, shape.head_size, 3

        def random(*sizes: int) -> torch.Tensor:
            return torch.randn(*sizes, generator=generator).half().bfloat16().double()

        self.qkv = random(10, shape.num_heads + 2 * kv_heads, size)
        self.split = [shape.num_heads, kv_heads, kv_heads]
        angles = random(10, 1, size // 2)
        cos, sin = angles.cos(), angles.sin()
        pairs = torch.cat((cos, cos), 2), torch.cat((-sin, sin), 2)
        self.cos_sin = tuple(pair.half().bfloat16().double() for pair in pairs)
        self.slots = torch.randperm(num_blocks * shape.block_size, generator=generator)[:10]
        self.slots[[2, 9]] = -1  # written nowhere
        self.caches = torch.full((2, num_blocks, shape.block_size, kv_heads, size), NAN).double()


@for_four_shapes
def test_keys_and_values_go_to_their_slots_and_nowhere_else(triton, shape, seed):
    new = NewTokens(shape, seed)
    caches, qkv = (x.to(shape.dtype).to(DEVICE) for x in (new.caches, new.qkv))
    reference.reshape_and_cache(*new.qkv.split(new.split, 1)[1:], *new.caches, new.slots)
    triton.reshape_and_cache(*qkv.split(new.split, 1)[1:], *caches, new.slots.to(DEVICE))
    torch.testing.assert_close(caches.cpu().double(), new.caches, rtol=0, atol=0, equal_nan=True)


@for_four_shapes
def test_rotated_keys_go_to_their_slots_and_rotated_queries_come_back(triton, shape, seed):
    new = NewTokens(shape, seed)
    caches, qkv, cos, sin = (
        x.to(shape.dtype).to(DEVICE) for x in (new.caches, new.qkv, *new.cos_sin)
    )
    expected = reference_ops.rotary_and_cache(
        *new.qkv.split(new.split, 1), *new.cos_sin, *new.caches, new.slots
    )
    slots = new.slots.to(DEVICE)
    actual = triton.rotary_and_cache(*qkv.split(new.split, 1), cos, sin, *caches, slots)
    assert_close(actual, expected, shape.dtype)
    written = ~new.caches.isnan()
    assert torch.equal(~caches.cpu().isnan(), written)
    assert_close(caches.cpu()[written], new.caches[written], shape.dtype)


@for_each_dtype
def test_blocks_are_copied_in_every_layer_by_one_launch(triton, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randn(6, 9, 16, 3, 96, generator=generator).to(dtype)
    actual = expected.clone().to(DEVICE)
    src, dst = torch.tensor([3, 3, 8]), torch.tensor([0, 5, 7])
    reference.copy_blocks(expected, src, dst)
    triton.copy_blocks(actual, src.to(DEVICE), dst.to(DEVICE))
    assert torch.equal(actual.cpu(), expected)


@for_each_dtype
def test_norms_and_silu_equal_the_reference(triton, dtype, seed):
    """Rows are parts of a wider tensor, whose other numbers are NaN."""
    generator = torch.Generator().manual_seed(seed)
    x, residual, gate_up, weight = (
        torch.randn(*shape, generator=generator).bfloat16().double()
        for shape in ((5, 576), (5, 576), (3, 160), (576,))
    )
    wide = torch.cat((x, torch.full_like(x, NAN)), dim=1).to(dtype).to(DEVICE)
    half_x, half_weight = wide[:, :576], weight.to(dtype).to(DEVICE)
    sums = residual.to(dtype).to(DEVICE)
    normed = triton.rms_norm(half_x, half_weight, 1e-5)
    assert_close(normed, reference_ops.rms_norm(x, weight, 1e-5), dtype)
    normed = triton.add_rms_norm(half_x, sums, half_weight, 1e-5)
    assert_close(normed, reference_ops.add_rms_norm(x, residual, weight, 1e-5), dtype)
    assert_close(sums, residual, dtype)  # the sum is written, too
    for name in ("silu_and_mul", "gelu_tanh_and_mul"):
        product = getattr(triton, name)(gate_up.to(dtype).to(DEVICE))
        assert_close(product, getattr(reference_ops, name)(gate_up), dtype)


class Mixture:
    """A layer's experts as stored (gate, up and down of each), and in float64 as the reference."""

    def __init__(self, stored: list[list[StoredWeight]], make_matrix: type, dtype: torch.dtype):
        hidden, width = stored[0][0].in_features, stored[0][0].num_rows
        config = SimpleNamespace(
            hidden_size=hidden, moe_intermediate_size=width, hidden_act="silu",
            num_experts=len(stored), num_experts_per_tok=2, norm_topk_prob=True,
        )  # fmt: skip
        self.exact, self.mixture = Experts(config), Experts(config)
        router = torch.randn(len(stored), hidden).to(dtype)
        self.exact.gate.weight.data = router.double()
        self.mixture.gate.weight.data = router.to(DEVICE)
        for i, (*gate_up, down) in enumerate(stored):
            exact, ours = self.exact.experts[i], self.mixture.experts[i]
            plain = torch.cat([part.dequantize().double() for part in gate_up])
            exact.gate_up_proj.matrix = TorchMatrix(plain)
            exact.down_proj.matrix = TorchMatrix(down.dequantize().double())
            ours.gate_up_proj.matrix = make_matrix(gate_up)
            ours.down_proj.matrix = make_matrix([down])

    def check(self, ops: DecoderOps, x: torch.Tensor) -> torch.Tensor:
        actual = self.mixture(x, ops)
        assert_close(actual, self.exact(x.double().cpu(), TORCH_OPS), x.dtype)
        return actual


@pytest.mark.parametrize(
    ("dtype", "num_tokens"),
    [(torch.float32, 1), (torch.float32, 70), (torch.bfloat16, 9), (torch.float16, 70)],
)
def test_experts_over_sorted_tokens_equal_the_loop_over_experts(triton, dtype, num_tokens):
    """An expert has no tokens, some, or several blocks of them; no size fills a whole block."""

    def plain(parts: list[StoredWeight]) -> TorchMatrix:
        return TorchMatrix(plain_weight(parts, dtype, torch.device(DEVICE)), is_read=True)

    stored = [
        [StoredWeight.of_tensor((torch.randn(shape) / 8).to(dtype)) for shape in shapes]
        for shapes in [((80, 72), (80, 72), (72, 80))] * 4
    ]
    x = torch.randn(num_tokens, 72).to(dtype).to(DEVICE)
    ops = DecoderOps(fused_experts=triton.fused_experts)
    Mixture(stored, plain, dtype).check(ops, x)


# ---- in C ----


@pytest.mark.parametrize("window", [0, 1, 21, 70])
@pytest.mark.parametrize(
    ("head_size", "group", "block_size"), [(16, 3, 4), (64, 7, 16), (48, 1, 1), (256, 4, 16)]
)
def test_attention_in_c_equals_the_reference_and_writes_only_new_tokens(
    head_size, group, block_size, window
):
    """Chunks, decodes, shared prefixes, and tokens whose keys and values are cached already."""
    seqs = [Seq(150), Seq(0), Seq(9, 5), Seq(144, 1, 0, 144 // block_size), Seq(0, 33)]
    shape = {"head_size": head_size, "group": group, "block_size": block_size, "window": window}
    case = CpuCase([*seqs, Seq(20, 6, is_all_cached=True)], **shape)
    backend = case.backend()
    output, expected = case.run(backend), case.reference()
    torch.testing.assert_close(output.double(), expected, rtol=1e-6, atol=1e-6)
    written = as_backend_layout(case.key_cache, case.value_cache).float()
    torch.testing.assert_close(backend.kv_caches[0], written, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("head_size", [16, 64])
def test_the_kernel_in_c_rotates_and_writes_as_the_reference_does(head_size, seed):
    ops, new = cpu_ops(), NewTokens(Shape(head_size, group=3), seed)
    cache = as_backend_layout(*new.caches).float()
    expected = reference_ops.rotary_and_cache(
        *new.qkv.split(new.split, 1), *new.cos_sin, *new.caches, new.slots
    )
    query, key, value = new.qkv.float().split(new.split, 1)
    cos_sin = tuple(x.float() for x in new.cos_sin)
    ops.rotary_and_cache(query, key, value, cos_sin, cache, new.slots)
    assert_close(query, expected, torch.float32)
    torch.testing.assert_close(
        cache.double(), as_backend_layout(*new.caches), rtol=1e-6, atol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize(("num_rows", "size"), [(1, 16), (16, 576), (200, 576), (16, 20)])
def test_norms_and_silu_in_c_equal_the_reference(num_rows, size):
    ops = cpu_ops()
    x, residual, weight = (torch.randn(*n) for n in ((num_rows, size), (num_rows, size), (size,)))
    assert_close(ops.rms_norm(x, weight, 1e-5), reference_ops.rms_norm(x, weight, 1e-5), x.dtype)
    ours, theirs = residual.clone(), residual.clone()
    normed = ops.add_rms_norm(x, ours, weight, 1e-5)
    assert_close(normed, reference_ops.add_rms_norm(x, theirs, weight, 1e-5), x.dtype)
    assert torch.equal(ours, theirs)
    gate_up = torch.linspace(-120.0, 120.0, num_rows * 2 * size).view(num_rows, -1)
    for name, tolerance in (("silu_and_mul", 1e-30), ("gelu_tanh_and_mul", 1e-5)):
        ours, theirs = (getattr(module, name)(gate_up) for module in (ops, reference_ops))
        torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=tolerance)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(120, 256), (7, 512)])
def test_a_product_with_stored_weights_equals_that_of_their_plain_numbers(name, shape):
    """Every format of weights that the kernel in C reads, and the lookup of single rows."""
    cpu_ops()
    weight = random_weight(name, *shape)
    plain, matrix = weight.dequantize(), CpuMatrix([weight], True)
    for num_rows in (1, 5, 33):
        x = torch.randn(num_rows, shape[1])
        assert_close(matrix.multiply(x), x.double() @ plain.double().T, torch.float32)
    ids = torch.tensor([shape[0] - 1, 0, 3, 3])
    assert torch.equal(matrix.rows(ids), plain[ids])


@pytest.mark.parametrize("shape", [(144, 576), (7, 33), (112, 1), (16, 32)])
def test_a_product_in_bfloat16_is_that_of_the_rounded_inputs(shape):
    ops = cpu_ops()
    weight, x = torch.randn(shape).bfloat16(), torch.randn(33, shape[1])
    matrix = CpuMatrix([StoredWeight.of_tensor(weight)]).packed
    expected = x.bfloat16().double() @ weight.double().T
    assert_close(ops.linear(x, matrix, rounds=True), expected, torch.float32)


@pytest.mark.parametrize(
    ("formats", "hidden", "width"),
    [("float32 float32 float32", 33, 40), ("q4_k q6_k q8_0", 256, 256), ("q4_0 q4_0 q4_1", 64, 32)],
)
def test_experts_in_c_equal_the_loop_over_them_and_each_token_has_the_same_bits_alone(
    formats, hidden, width
):
    """Their weights are stored; gate and up can have two formats, and a panel can have padding."""
    ops, shapes = cpu_ops(), ((width, hidden), (width, hidden), (hidden, width))
    each = list(zip(formats.split(), shapes, strict=True))
    stored = [[random_weight(name, *shape) for name, shape in each] for _ in range(7)]
    layer = Mixture(stored, CpuMatrix, torch.float32)
    fused = DecoderOps(fused_topk=ops.fused_topk, fused_experts=ops.fused_experts)
    x = torch.randn(70, hidden)
    together = layer.check(fused, x)
    for first, end in ((0, 1), (1, 3), (3, 20)):
        assert torch.equal(layer.mixture(x[first:end], fused), together[first:end])
