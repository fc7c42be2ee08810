"""Two streams in turns, tied together by events: what comes out is what the order says, whatever the schedule does.

    ferry run --torch --schedule shuffle -- python examples/torch/05-two-streams.py
"""
import torch

ROUNDS = 30

one, two = torch.npu.Stream(), torch.npu.Stream()
x = torch.arange(1024.0, device="npu")
copy = torch.empty_like(x)
out = [torch.empty(1024).pin_memory() for _ in range(ROUNDS)]
torch.npu.synchronize()
for step in range(ROUNDS):
    with torch.npu.stream(one):
        one.wait_stream(two)
        x.mul_(0.5).add_(step)
        copy.copy_(x, non_blocking=True)
    with torch.npu.stream(two):
        two.wait_stream(one)
        copy.add_(1)
        out[step].copy_(copy, non_blocking=True)
torch.npu.synchronize()

want = torch.arange(1024.0)
for step in range(ROUNDS):
    want = want * 0.5 + step
    assert torch.equal(out[step], want + 1), f"round {step}"
print(f"ok: {ROUNDS} rounds over two streams")
