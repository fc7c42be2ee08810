"""A KV cache to another machine, block by block: while one batch of blocks is on the network, the copies of the next one run.

    python kv_blocks.py receive 5555     on one machine
    python kv_blocks.py send 5555        on the other; both on one machine here

Blocks lie anywhere on the device, as a cache of pages has them, and get other places on the other device. Each side has two slots of page-locked
memory. One call copies a batch of blocks (memcpy_batch_async); the engine sends the slot as one piece. The sender fills a slot again when the network
has taken it, and writes a slot of the receiver again when the receiver's copies out of it have ended.
"""

import random
import sys
import time

import acl
from side import DEVICE, HOST, Line, Side, check, pattern, sent

BLOCK, BLOCKS, BATCH = 64 << 10, 256, 16
BATCHES = BLOCKS // BATCH
SLOT = BATCH * BLOCK


def places(seed):
    """Where the blocks lie in the cache: block i at place places[i]."""
    order = list(range(BLOCKS))
    random.Random(seed).shuffle(order)
    return order


class Cache:
    """Blocks on the device, and two slots of page-locked memory with an event each."""

    def __init__(self, side, seed, content=None):
        self.side, self.places = side, places(seed)
        self.device = side.device_memory(BLOCKS * BLOCK, content)
        self.slots = [side.page_locked(SLOT) for _ in range(2)]
        self.events = [check(acl.rt.create_event()) for _ in range(2)]

    def copy(self, batch, to_device):
        """Has the blocks of a batch copied between the device and its slot, and returns at once."""
        slot = self.slots[batch % 2]
        device = [self.device + self.places[batch * BATCH + i] * BLOCK for i in range(BATCH)]
        host, sizes = [slot + i * BLOCK for i in range(BATCH)], [BLOCK] * BATCH
        (dsts, srcs), (dst, src) = ((device, host), (DEVICE, HOST)) if to_device else ((host, device), (HOST, DEVICE))
        attrs = [{"dstLoc": {"type": dst, "id": 0}, "srcLoc": {"type": src, "id": 0}}]
        check(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, BATCH, attrs, [0], 1, self.side.stream))
        check(acl.rt.record_event(self.events[batch % 2], self.side.stream))

    def wait(self, batch):
        check(acl.rt.synchronize_event(self.events[batch % 2]))


def content_of(order):
    """The whole cache: block i, whose bytes depend on i, lies at order[i]."""
    blocks = [b""] * BLOCKS
    for i, place in enumerate(order):
        blocks[place] = pattern(BLOCK, seed=i)
    return b"".join(blocks)


def send(port):
    side, line = Side(), Line.connect(port)
    cache = Cache(side, 1, content_of(places(1)))
    there = line.hear()
    start = time.perf_counter()
    cache.copy(0, to_device=False)
    for batch in range(BATCHES):
        # The copies of the next batch are under way while this one is sent. Its slot is free: that was sent and taken two batches ago.
        if batch + 1 < BATCHES:
            cache.copy(batch + 1, to_device=False)
        cache.wait(batch)
        if batch >= 2:
            # The receiver's slot is free when its copies have ended.
            assert line.hear()["free"] == batch - 2
        target = there["slots"][batch % 2]
        sent(side.engine.transfer_sync_write(there["name"], cache.slots[batch % 2], target, SLOT), f"batch {batch}: transfer_sync_write")
        line.tell(batch=batch)
    while line.hear().get("all") is None:
        pass
    took = time.perf_counter() - start
    print(f"ok: {BLOCKS} blocks of {BLOCK} bytes sent in {BATCHES} batches, {BLOCKS * BLOCK / took / 1e6:.0f} MB/s")


def receive(port):
    side = Side()
    cache = Cache(side, 2)
    line = Line.listen(port)
    line.tell(name=side.name, slots=cache.slots)
    for batch in range(BATCHES):
        assert line.hear()["batch"] == batch
        cache.copy(batch, to_device=True)
        # While these copies run, the next batch arrives in the other slot.
        if batch >= 1:
            cache.wait(batch - 1)
            line.tell(free=batch - 1)
    cache.wait(BATCHES - 1)
    assert side.content(cache.device, BLOCKS * BLOCK) == content_of(places(2)), "the cache is wrong"
    line.tell(all=BLOCKS)
    print(f"ok: {BLOCKS} blocks received, every byte compared")


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](int(sys.argv[2]))
