"""Two page-locked buffers: while the device works on one batch, the next one is on its way by a stream of its own.

    ferry run --torch -- python examples/torch/04-double-buffer.py
"""
import torch

BATCHES, ROWS, WIDTH = 12, 64, 32


def batch(number):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(number))


weight = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(99))
there = weight.npu()
hosts = [torch.empty(ROWS, WIDTH).pin_memory() for _ in range(2)]
devices = [torch.empty(ROWS, WIDTH, device="npu") for _ in range(2)]
copying, working = torch.npu.Stream(), torch.npu.current_stream()
arrived = [torch.npu.Event() for _ in range(2)]
used = [torch.npu.Event() for _ in range(2)]
total = torch.zeros(WIDTH, WIDTH, device="npu")


def send(number):
    """Fills a buffer of the host and copies it, when the device has done with both."""
    which = number % 2
    arrived[which].synchronize()  # the copy before has read the host's buffer
    hosts[which].copy_(batch(number))
    with torch.npu.stream(copying):
        copying.wait_event(used[which])
        devices[which].copy_(hosts[which], non_blocking=True)
        arrived[which].record(copying)


send(0)
for number in range(BATCHES):
    if number + 1 < BATCHES:
        send(number + 1)
    working.wait_event(arrived[number % 2])
    x = devices[number % 2]
    total += x.T @ (x @ there)
    used[number % 2].record(working)

want = torch.zeros(WIDTH, WIDTH)
for number in range(BATCHES):
    x = batch(number)
    want += x.T @ (x @ weight)
assert torch.equal(total.cpu(), want), "the sum is not the CPU's"
print(f"ok: {BATCHES} batches through two buffers, and the sum is the CPU's")
