"""Pinned and pageable copies in both directions and on the device, blocking and not; dtypes, views, numbers."""
import itertools

import torch
from kit import SIZES, main, same, values


def host_memory(count, pinned):
    memory = torch.zeros(count, dtype=torch.uint8)
    return memory.pin_memory() if pinned else memory


def there_and_back():
    for count, pinned, wait in itertools.product(SIZES, (False, True), (False, True)):
        what = f"{count} bytes, pinned {pinned}, blocking {wait}"
        source, back = host_memory(count, pinned), host_memory(count, pinned)
        assert source.is_pinned() == pinned, what
        source.copy_(values(count))
        device = torch.empty(count, dtype=torch.uint8, device="npu")
        device.copy_(source, non_blocking=not wait)
        back.copy_(device, non_blocking=not wait)
        torch.npu.synchronize()
        same(back, source, what)


def on_the_device():
    for count in SIZES:
        first = values(count, 2).npu()
        second = torch.empty_like(first).copy_(first)
        third = torch.empty_like(first).copy_(second, non_blocking=True)
        same(third.cpu(), values(count, 2), f"{count} bytes over three tensors")


def in_order_without_a_wait():
    source = [values(1 << 16, seed).pin_memory() for seed in range(8)]
    back = [torch.empty(1 << 16, dtype=torch.uint8).pin_memory() for _ in source]
    device = torch.empty(1 << 16, dtype=torch.uint8, device="npu")
    for one, other in zip(source, back):
        device.copy_(one, non_blocking=True)
        other.copy_(device, non_blocking=True)
    torch.npu.current_stream().synchronize()
    for number, (one, other) in enumerate(zip(source, back)):
        same(other, one, f"round {number}")


def every_type():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.bool):
        source = values(999).to(dtype)
        same(source.npu().cpu(), source, str(dtype))


def parts_of_a_tensor():
    device = values(4096).npu()
    device[1000:2000].copy_(values(1000, 7))
    want = values(4096)
    want[1000:2000] = values(1000, 7)
    same(device.cpu(), want, "a slice written")
    same(device[500:1500].cpu(), want[500:1500], "a slice read")
    same(device.view(64, 64)[3].cpu(), want.view(64, 64)[3], "a row of a view")
    assert device[77].item() == want[77].item()
    assert device[4000:].tolist() == want[4000:].tolist()


def nothing():
    same(torch.empty(0).npu().cpu(), torch.empty(0), "no bytes")


main(there_and_back, on_the_device, in_order_without_a_wait, every_type, parts_of_a_tensor, nothing)
