"""03: many copies in one call, with acl.rt.memcpy_batch_async.

Ten pieces go to the device. Six of them come from page-locked memory of the library and four from a bytearray, so there are two
attributes: what the memory of the copies is that they cover. attrs_indexes says at which copy each attribute begins; it lasts until
the next one begins. The copies of a batch run in no particular order.
"""

import acl
from check import check

PIECES, FIRST, PIECE = 10, 6, 100

DEVICE_TO_HOST = 2
HUGE_FIRST = 0
HOST, DEVICE, UNREGISTERED = 0, 1, 2  # where memory is


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())
    locked = check(acl.rt.malloc_host(FIRST * PIECE))
    result = check(acl.rt.malloc_host(PIECES * PIECE))
    device = check(acl.rt.malloc(PIECES * PIECE, HUGE_FIRST))

    # Piece i is full of the number i, and goes to place i on the device.
    for i in range(FIRST):
        check(acl.rt.memset(locked + i * PIECE, PIECE, i, PIECE))
    ordinary = bytearray(i for i in range(FIRST, PIECES) for _ in range(PIECE))
    start = acl.util.bytes_to_ptr(ordinary)
    srcs = [locked + i * PIECE if i < FIRST else start + (i - FIRST) * PIECE for i in range(PIECES)]
    dsts = [device + i * PIECE for i in range(PIECES)]
    sizes = [PIECE] * PIECES

    # The id matters for device memory only.
    there = {"type": DEVICE, "id": 0}
    attrs = [
        {"dstLoc": there, "srcLoc": {"type": HOST, "id": 0}},
        {"dstLoc": there, "srcLoc": {"type": UNREGISTERED, "id": 0}},
    ]
    attrs_indexes = [0, FIRST]

    # Some of the memory is ordinary, so this returns when the copies are done; with page-locked memory alone it would only hand
    # them over. The bytes that each destination has room for are the sizes here, too.
    check(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, PIECES, attrs, attrs_indexes, len(attrs), stream))
    check(acl.rt.memcpy_async(result, PIECES * PIECE, device, PIECES * PIECE, DEVICE_TO_HOST, stream))
    check(acl.rt.synchronize_stream(stream))
    back = acl.util.ptr_to_bytes(result, PIECES * PIECE)
    for i in range(PIECES):
        assert back[i * PIECE : (i + 1) * PIECE] == bytes([i]) * PIECE, f"piece {i} is wrong"
    print(f"{PIECES} pieces arrived")

    # A mistake: piece 7 is said to be host memory and is not. Nothing is copied, and fail_index names it.
    srcs[7] = device
    fail_index, ret = acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, PIECES, attrs, attrs_indexes, len(attrs), stream)
    print(f"with a mistake in piece 7: returned {ret}, fail_index {fail_index}")
    assert ret != 0 and fail_index == 7

    check(acl.rt.free_host(locked))
    check(acl.rt.free_host(result))
    check(acl.rt.free(device))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: one call, {PIECES} copies")


if __name__ == "__main__":
    main()
