"""What the programs here share. They see torch and torch_npu as anybody does, and nothing of Ferry."""
import os
import sys

import torch
import torch_npu  # noqa: F401

# Small, a page and a bit, and larger than a slice of the engine's.
SIZES = (1, 4099, 3 << 20)


def values(count, seed=1):
    """Bytes that differ from place to place and from seed to seed, made by the CPU. They repeat after a prime number of bytes."""
    period = min(count, 65521)
    some = ((torch.arange(period) * 31 + torch.arange(period) // 251 * 7 + seed * 101) % 251).to(torch.uint8)
    return some.repeat(-(-count // max(period, 1)))[:count]


def same(got, want, what):
    """Stops the program at the first byte that differs."""
    assert got.device.type == want.device.type == "cpu", what
    if not torch.equal(got, want):
        at = (got != want).flatten().nonzero()[0].item()
        raise AssertionError(f"{what}: element {at} is {got.flatten()[at]}, not {want.flatten()[at]}")


EXPANDABLE = "expandable_segments:True"


def is_expandable():
    """Whether torch_npu maps physical memory into ranges of addresses that it has reserved."""
    return os.environ.get("PYTORCH_NPU_ALLOC_CONF") == EXPANDABLE


def once_more_expandable():
    """Runs the program from its beginning with expandable segments, if it had none."""
    if not is_expandable():
        os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ, PYTORCH_NPU_ALLOC_CONF=EXPANDABLE))


def main(*parts):
    """Runs the parts of a program."""
    for part in parts:
        part()
    print("ok:", ", ".join(part.__name__.replace("_", " ") for part in parts), flush=True)
