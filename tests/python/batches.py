"""Batches of copies for the tests of acl.rt.memcpy_batch_async."""

import acl
from kit import POISON

SIZE = 4096
HOST, DEVICE, UNREGISTERED, MANAGED, NUMA = range(5)
# Where each piece goes, where it comes from, and its bytes; in no order, with gaps, and one that is empty.
PIECES = [(3000, 10, 100), (0, 500, 1), (100, 700, 999), (2000, 2000, 0), (1500, 3000, 64)]
NAMES = ("dsts", "dest_maxs", "srcs", "sizes", "num_batches", "attrs", "attrs_indexes", "num_attrs", "stream")
ARRAYS = NAMES[:4] + ("attrs_indexes",)


def attr(dst, src, dst_id=0, src_id=0, **more):
    return {"dstLoc": {"id": dst_id, "type": dst}, "srcLoc": {"id": src_id, "type": src}, **more}


DOWN, UP = attr(DEVICE, HOST), attr(HOST, DEVICE)


class Batch:
    """The arguments of a call, to be bent."""

    def __init__(self, to, source, stream, pieces=PIECES, direction=None):
        self.dsts = [to.addr + dst for dst, _, _ in pieces]
        self.dest_maxs = [to.size - dst for dst, _, _ in pieces]
        self.srcs = [source.addr + src for _, src, _ in pieces]
        self.sizes = [size for _, _, size in pieces]
        self.num_batches, self.num_attrs, self.stream = len(pieces), 1, stream
        self.attrs, self.attrs_indexes = [direction or (DOWN if to.home == "device" else UP)], [0]

    def args(self, **changes):
        return [changes.get(name, getattr(self, name)) for name in NAMES]

    def __call__(self, **changes):
        return acl.rt.memcpy_batch_async(*self.args(**changes))


def by_hand(data, pieces=PIECES, size=SIZE):
    """What is in a poisoned destination afterwards."""
    want = bytearray([POISON]) * size
    for dst, src, length in pieces:
        want[dst : dst + length] = data[src : src + length]
    return bytes(want)
