"""04: a copy whose addresses are read when it runs, with acl.rt.memcpy_async_with_desc.

A descriptor is a piece of device memory that says: from here, to there, so many bytes. The task that uses it looks into it when its
turn comes, not when it is submitted. So the same submitted task can be pointed elsewhere, by the host or by a task that runs before
it.
"""

import acl
from check import check

BYTES = 256

DEVICE_TO_HOST, DEVICE_TO_DEVICE, INNER_DEVICE_TO_DEVICE = 2, 3, 6
HUGE_FIRST = 0


def read(device):
    """Device memory cannot be touched by the program; this copies it to where it can."""
    back = bytearray(BYTES)
    check(acl.rt.memcpy(acl.util.bytes_to_ptr(back), BYTES, device, BYTES, DEVICE_TO_HOST))
    return back


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())

    # Step 1: how large is a descriptor? Step 2: device memory for it. We make two.
    size = check(acl.rt.get_memcpy_desc_size(INNER_DEVICE_TO_DEVICE))
    print(f"a descriptor takes {size} bytes")
    desc = check(acl.rt.malloc(size, HUGE_FIRST))
    spare = check(acl.rt.malloc(size, HUGE_FIRST))

    # Step 3: memory to copy from and to, all of it on the device.
    first, second, target = (check(acl.rt.malloc(BYTES, HUGE_FIRST)) for _ in range(3))
    check(acl.rt.memset(first, BYTES, 1, BYTES))
    check(acl.rt.memset(second, BYTES, 2, BYTES))
    check(acl.rt.memset(target, BYTES, 0, BYTES))

    # Step 4: fill the descriptors in. Mind the order: the source comes first here. The descriptor's address is returned too.
    assert check(acl.rt.set_memcpy_desc(desc, INNER_DEVICE_TO_DEVICE, first, target, BYTES, 0)) == desc
    check(acl.rt.set_memcpy_desc(spare, INNER_DEVICE_TO_DEVICE, second, target, BYTES, 0))

    # Step 5: copy.
    check(acl.rt.memcpy_async_with_desc(desc, INNER_DEVICE_TO_DEVICE, stream))
    check(acl.rt.synchronize_stream(stream))
    assert read(target) == bytes([1]) * BYTES
    print("copied what the descriptor pointed at")

    # A descriptor is plain bytes: an earlier task of the stream writes the spare one over it, and the copy behind that task goes
    # where the spare one says.
    check(acl.rt.memcpy_async(desc, size, spare, size, DEVICE_TO_DEVICE, stream))
    check(acl.rt.memcpy_async_with_desc(desc, INNER_DEVICE_TO_DEVICE, stream))
    check(acl.rt.synchronize_stream(stream))
    assert read(target) == bytes([2]) * BYTES
    print("copied what it pointed at when its turn came")

    for memory in (first, second, target, desc, spare):
        check(acl.rt.free(memory))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print("ok: one descriptor, two sources")


if __name__ == "__main__":
    main()
