"""Weights share large pages: adjacent, aligned to cache lines, and alive while one is used."""

import torch

from minivllm.runtime.cpu.large_pages import LARGE_PAGE_BYTES, LINE_BYTES, LargePages


def test_tensors_are_adjacent_and_do_not_overlap():
    memory = LargePages()
    tensors = [memory.empty(*shape) for shape in ((3, 5), (1,), (0, 7), (16, 16), (2, 2, 2))]
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    for number, tensor in enumerate(tensors):
        assert tensor.dtype == torch.float32 and (tensor == number).all()
        assert tensor.data_ptr() % LINE_BYTES == 0
    assert tensors[0].data_ptr() % LARGE_PAGE_BYTES == 0
    assert tensors[3].data_ptr() - tensors[0].data_ptr() == 2 * LINE_BYTES


def test_a_tensor_keeps_its_memory_after_the_allocator_is_gone():
    memory = LargePages()
    first, second = memory.empty(100).fill_(1.0), memory.empty(100).fill_(2.0)
    del memory
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    del first
    assert second.sum() == 200.0
