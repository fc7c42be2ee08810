"""What a batch copy costs from Python, beside the same call from C, in one process and one run.

    python crates/py/benches/batch.py [--pieces 4096] [--samples 30]

Both sides hand the same batch of small pieces over to a stream that waits for an event, so that only the call is measured and
not the copying. The C side is a loop compiled by gcc that calls aclrtMemcpyBatchAsync of the library that the module uses.
Samples of the two alternate; the table shows medians for one call and the ratio. Exits with 1 if NumPy arrays cost more than 3
times the C call.
"""

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

import acl

LIMIT = 3.0
CALLS = 5
BLOCK = 256
SYNC = 1  # ACL_EVENT_SYNC

LOOP = r"""
#include <stddef.h>
#include <stdint.h>
#include <time.h>
typedef int (*Batch)(void **, size_t *, void **, size_t *, size_t, void *, size_t *, size_t, size_t *, void *);
double loop(Batch batch, int calls, void **dsts, size_t *maxs, void **srcs, size_t *sizes, size_t pieces, void *attrs,
            size_t *indexes, void *stream)
{
    struct timespec a, b;
    size_t fail;
    int bad = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < calls; i++)
        bad |= batch(dsts, maxs, srcs, sizes, pieces, attrs, indexes, 1, &fail, stream);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return bad ? -1.0 : (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
}
"""


def ok(result):
    """The outputs of a call that must succeed."""
    *values, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        raise SystemExit(f"{ret}: {acl.get_recent_err_msg()}")
    return values[0] if len(values) == 1 else values


def compile_loop(folder):
    source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
    source.write_text(LOOP)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double
    return loop


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pieces", type=int, default=4096)
    parser.add_argument("--samples", type=int, default=60)
    options = parser.parse_args()
    pieces = options.pieces

    ok(acl.init())
    ok(acl.rt.set_device(0))
    stream, gate_stream, event = ok(acl.rt.create_stream()), ok(acl.rt.create_stream()), ok(acl.rt.create_event_with_flag(SYNC))
    host, device = ok(acl.rt.malloc_host(2 * pieces * BLOCK)), ok(acl.rt.malloc(2 * pieces * BLOCK, 0))
    # Every second block, in an order with no neighbours, as the blocks of a cache are.
    order = numpy.random.default_rng(1).permutation(pieces).astype(numpy.uint64)
    dsts, srcs = device + order * 2 * BLOCK, host + order * 2 * BLOCK
    dsts, srcs = dsts.astype(numpy.uint64), srcs.astype(numpy.uint64)
    sizes = numpy.full(pieces, BLOCK, dtype=numpy.uint64)
    attrs = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]

    def from_python(dsts, sizes, srcs):
        batch = acl.rt.memcpy_batch_async
        start = time.perf_counter()
        for _ in range(CALLS):
            index, ret = batch(dsts, sizes, srcs, sizes, pieces, attrs, [0], 1, stream)
        took = time.perf_counter() - start
        ok(ret)
        return took

    lists = [array.tolist() for array in (dsts, sizes, srcs)]
    narrow = [dsts.astype(numpy.int64), sizes.astype(numpy.int32), srcs.astype(numpy.int64)]
    with tempfile.TemporaryDirectory() as folder:
        loop = compile_loop(folder)
        library = ctypes.CDLL("libascendcl.so")  # By its SONAME: the one that the module has loaded.
        c_attrs, c_indexes = (ctypes.c_int * 8)(0, 1, 0, 0), (ctypes.c_size_t * 1)(0)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (dsts, sizes, srcs, sizes)]

        def from_c():
            took = loop(
                library.aclrtMemcpyBatchAsync, CALLS, *pointers, ctypes.c_size_t(pieces), c_attrs, c_indexes, ctypes.c_void_p(stream)
            )
            assert took >= 0, acl.get_recent_err_msg()
            return took

        sides = {
            "C": from_c,
            "NumPy uint64": lambda: from_python(dsts, sizes, srcs),
            "NumPy int64, int32": lambda: from_python(*narrow),
            "lists": lambda: from_python(*lists),
        }
        took = {name: [] for name in sides}
        for sample in range(options.samples + 1):
            for name, side in sides.items():
                # The stream waits for what the other one has not recorded yet.
                ok(acl.rt.record_event(event, gate_stream))
                ok(acl.rt.reset_event(event, gate_stream))
                ok(acl.rt.synchronize_stream(gate_stream))
                ok(acl.rt.stream_wait_event(stream, event))
                seconds = side()
                ok(acl.rt.record_event(event, gate_stream))
                ok(acl.rt.synchronize_stream(stream))
                if sample > 0:
                    took[name].append(seconds / CALLS)
            print(f"\rsample {sample} of {options.samples}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

    base = statistics.median(took["C"])
    print(f"one batch of {pieces} pieces, handed over; median of {options.samples} samples of {CALLS} calls")
    print(f"{'from':<20}{'us a call':>12}{'ns a piece':>12}{'spread':>9}{'times C':>9}")
    ratios = {}
    for name, samples in took.items():
        middle = statistics.median(samples)
        low, high = numpy.percentile(samples, [10, 90])
        ratios[name] = middle / base
        print(f"{name:<20}{middle * 1e6:>12.1f}{middle * 1e9 / pieces:>12.1f}{(high - low) / middle:>8.0%}{ratios[name]:>9.2f}")
    if ratios["NumPy uint64"] > LIMIT:
        raise SystemExit(f"NumPy arrays cost {ratios['NumPy uint64']:.2f} times the C call, more than {LIMIT}")


if __name__ == "__main__":
    main()
