"""torch_npu's allocators over ours: caching, pools, expandable segments, statistics, exhaustion."""
import torch
from kit import is_expandable, main, once_more_expandable, same, values

MIB = 1 << 20


def freed_memory_is_cached_and_given_back():
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    tensors = [values(3 * MIB, seed).npu() for seed in range(8)]
    assert torch.npu.memory_allocated() >= 8 * 3 * MIB
    for seed, tensor in enumerate(tensors):
        same(tensor.cpu(), values(3 * MIB, seed), f"tensor {seed}")
    del tensors, tensor
    assert torch.npu.memory_reserved() >= 8 * 3 * MIB
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= before


def pools():
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        tensor = values(2 * MIB, 3).npu()
    other = values(2 * MIB, 4).npu()
    same(tensor.cpu(), values(2 * MIB, 3), "of the pool")
    same(other.cpu(), values(2 * MIB, 4), "beside it")
    del tensor


def too_much_is_refused():
    _, total = torch.npu.mem_get_info()
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("twice the memory of the device was allocated")
    same(values(MIB).npu().cpu(), values(MIB), "afterwards")


def growing_and_shrinking():
    """With expandable segments: one range of addresses that physical memory is mapped into and taken from."""
    for size in (1, 40, 7, 60, 3):
        tensors = [values(size * MIB, seed).npu() for seed in range(3)]
        for seed, tensor in enumerate(tensors):
            same(tensor.cpu(), values(size * MIB, seed), f"{size} MiB, tensor {seed}")
        del tensors, tensor
        torch.npu.empty_cache()


if is_expandable():
    main(growing_and_shrinking, too_much_is_refused)
else:
    main(freed_memory_is_cached_and_given_back, pools, too_much_is_refused)
    once_more_expandable()
