# CHECK: FERRY-BATCH-RACE: the slots of a batch are drawn at random with repetition, so that some blocks
# go to the same slot.
import acl
import numpy
from kit import FIXED, begin, device_memory, finish, ok, page_locked, stream

BLOCKS, BLOCK = 64, 128

begin()
uploads = stream()
host, cache = page_locked(BLOCKS * BLOCK), device_memory(BLOCKS * BLOCK)
random = numpy.random.default_rng(1)
slots = random.permutation(BLOCKS) if FIXED else random.integers(0, BLOCKS, BLOCKS)
dsts, srcs = cache + slots * BLOCK, host + numpy.arange(BLOCKS) * BLOCK
sizes = numpy.full(BLOCKS, BLOCK)
to_device = [{"dstLoc": {"type": 1, "id": 0}, "srcLoc": {"type": 0, "id": 0}}]
ok(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, BLOCKS, to_device, [0], 1, uploads))  # WORK ACCESS
finish()
