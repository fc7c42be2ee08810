#!/usr/bin/env python3
"""What a running matrix product loses beside a batch copy, by the number of blocks that the copy's kernel may take.

Needs a GPU, PyTorch and libascendcl.so: FERRY_LIBRARY=.../libascendcl.so tests/device/matmul.py [BLOCKS ...]

The product is PyTorch's, of two 8192 x 8192 matrices in bfloat16, again and again on one stream. Beside it a thread hands over
batches of 4,096 pieces of 4 KiB, eight before each synchronise, through the C functions. The number of blocks is read when
the library starts, so every number has a process of its own; 0 blocks leave all to the copy engine. One number takes about five
seconds, and no more than LIMIT.
"""

import ctypes
import os
import random
import signal
import sys
import threading
import time

BLOCKS = [0, 8, 16, 32, 64, 132]
COUNT, PIECE, QUEUED = 4096, 4096, 8
REGION = 256 << 20  # the pieces are scattered over so many bytes on each side
SIDE = 8192
SECONDS = 0.3
LIMIT = 20

HOST_TO_DEVICE, DEVICE_TO_HOST = "h2d", "d2h"
HUGE_FIRST = 0


class Location(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("kind", ctypes.c_int32)]


class Attribute(ctypes.Structure):
    _fields_ = [("dst", Location), ("src", Location), ("reserved", ctypes.c_uint8 * 16)]


class Library:
    """The C functions; a code other than 0 is an exception with the library's own words."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise RuntimeError(f"{name} answered {code}: {self.library.aclGetRecentErrMsg()}")

        return call


class Batches:
    """Batches both ways between page-locked memory and a device."""

    def __init__(self, acl):
        self.acl, self.stream = acl, ctypes.c_void_p()
        acl.aclrtCreateStream(ctypes.byref(self.stream))
        self.host, self.device = ctypes.c_void_p(), ctypes.c_void_p()
        acl.aclrtMallocHost(ctypes.byref(self.host), ctypes.c_size_t(REGION))
        acl.aclrtMalloc(ctypes.byref(self.device), ctypes.c_size_t(REGION), HUGE_FIRST)
        places = random.Random(7)
        numbers = [places.sample(range(REGION // PIECE), COUNT) for _ in range(2)]
        pointers = ctypes.c_void_p * COUNT
        self.on_host = pointers(*(self.host.value + PIECE * number for number in numbers[0]))
        self.on_device = pointers(*(self.device.value + PIECE * number for number in numbers[1]))
        self.sizes = (ctypes.c_size_t * COUNT)(*[PIECE] * COUNT)

    def run(self, way):
        """Eight batches and a synchronise."""
        host, device = (self.on_host, Location(0, 0)), (self.on_device, Location(0, 1))
        (dst, to), (src, where) = (device, host) if way == HOST_TO_DEVICE else (host, device)
        attribute, first, failed = Attribute(to, where), ctypes.c_size_t(0), ctypes.c_size_t(0)
        for _ in range(QUEUED):
            self.acl.aclrtMemcpyBatchAsync(
                dst, self.sizes, src, self.sizes, ctypes.c_size_t(COUNT), ctypes.byref(attribute),
                ctypes.byref(first), ctypes.c_size_t(1), ctypes.byref(failed), self.stream,
            )
        self.acl.aclrtSynchronizeStream(self.stream)

    def check(self):
        """Every piece comes back as it was."""
        want = random.Random(8).randbytes(PIECE)
        for at in self.on_host:
            ctypes.memmove(at, want, PIECE)
        self.run(HOST_TO_DEVICE)
        ctypes.memset(self.host, 0, REGION)
        self.run(DEVICE_TO_HOST)
        wrong = sum(ctypes.string_at(at, PIECE) != want for at in self.on_host)
        if wrong:
            raise RuntimeError(f"{wrong} of {COUNT} pieces came back wrong")

    def rate(self, way, until):
        """GB/s, from now until told."""
        begin, rounds = time.perf_counter(), 0
        while not until():
            self.run(way)
            rounds += 1
        return rounds * QUEUED * COUNT * PIECE / (time.perf_counter() - begin) / 1e9


class Product:
    """The matrix product."""

    def __init__(self, torch):
        self.torch, self.stream = torch, torch.cuda.Stream()
        make = lambda: torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        self.left, self.right, self.out = make(), make(), make()
        self.rate()

    def rate(self):
        """TFLOP/s over some time."""
        torch, begin, end = self.torch, *(self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start, count = time.perf_counter(), 0
        with torch.cuda.stream(self.stream):
            begin.record()
            while time.perf_counter() - start < SECONDS:
                for _ in range(20):
                    torch.matmul(self.left, self.right, out=self.out)
                count += 20
                # No more than a few are queued, so that the loop ends when it should.
                self.stream.synchronize()
            end.record()
        end.synchronize()
        return count * 2 * SIDE**3 / (begin.elapsed_time(end) / 1e3) / 1e12


def beside(product, batches, way):
    """Both at once: the product's rate and the batches'."""
    over, rate = threading.Event(), []

    def copy():
        batches.acl.aclrtSetDevice(0)
        rate.append(batches.rate(way, over.is_set))

    thread = threading.Thread(target=copy)
    thread.start()
    product_rate = product.rate()
    over.set()
    thread.join()
    return product_rate, rate[0]


def alone(batches, way):
    end = time.perf_counter() + SECONDS
    return batches.rate(way, lambda: time.perf_counter() > end)


def measure(blocks):
    """Measures with this many blocks and prints a line for each way."""
    import torch

    acl = Library(os.environ["FERRY_LIBRARY"])
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    batches, product = Batches(acl), Product(torch)
    batches.check()
    before = product.rate()
    for way in [HOST_TO_DEVICE, DEVICE_TO_HOST]:
        copies = alone(batches, way)
        with_copies, copies_with = beside(product, batches, way)
        after = product.rate()
        # Clocks wander with the heat: what the product does alone is the mean of before and after.
        usual, before = (before + after) / 2, after
        loss = 100 * (1 - with_copies / usual)
        print(f"{way} {blocks:6} {copies:14.1f} {copies_with:14.1f} {usual:14.1f} {with_copies:14.1f} {loss:7.1f} %", flush=True)


def child(blocks):
    """A process of its own, which has PyTorch from its parent: what to put into the exit code."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    # Also ends a thread that waits for the GPU.
    signal.alarm(LIMIT)
    os.environ["FERRY_BACKEND"] = "cuda"
    os.environ.update({"FERRY_CUDA_BLOCKS": str(blocks)} if blocks else {"FERRY_CUDA_PLAN": "blocks_in=0,blocks_out=0"})
    try:
        measure(blocks)
    except Exception as error:
        print(error, file=sys.stderr)
        os._exit(1)
    os._exit(0)


def main():
    if "FERRY_LIBRARY" not in os.environ:
        sys.exit("FERRY_LIBRARY must name libascendcl.so")
    # Once for all: it takes as long as a measurement. The GPU is first used by the children.
    import torch  # noqa: F401

    print(f"batches of {COUNT} x {PIECE} B, {QUEUED} queued, beside bfloat16 products of {SIDE} x {SIDE}")
    print("    blocks  alone GB/s    beside GB/s  alone TFLOP/s beside TFLOP/s    loss", flush=True)
    codes = {blocks: child(blocks) for blocks in [int(given) for given in sys.argv[1:]] or BLOCKS}
    failed = {blocks: code for blocks, code in codes.items() if code != 0}
    for blocks, code in failed.items():
        print(f"    {blocks:6}  failed with code {code}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
