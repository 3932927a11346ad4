"""Weights share large pages: adjacent, aligned to cache lines, and alive while one is used."""

from minivllm.runtime.cpu.large_pages import LARGE_PAGE_BYTES, LINE_BYTES, LargePages


def test_tensors_are_adjacent_and_keep_their_memory_when_the_allocator_is_gone():
    memory = LargePages()
    tensors = [memory.empty(*shape) for shape in ((3, 5), (1,), (0, 7), (16, 16), (2, 2, 2))]
    del memory
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    for number, tensor in enumerate(tensors):
        assert (tensor == number).all() and tensor.data_ptr() % LINE_BYTES == 0
    assert tensors[0].data_ptr() % LARGE_PAGE_BYTES == 0
    assert tensors[3].data_ptr() - tensors[0].data_ptr() == 2 * LINE_BYTES
    last = tensors.pop()
    del tensors, tensor
    assert last.sum() == 4 * 8
