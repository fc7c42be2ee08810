"""02: one call for any host memory, with acl.rt.memcpy_async_with_condition.

The call looks at the host memory that it is given. Did acl allocate it (acl.rt.malloc_host), then the copy is only handed over to
the stream and the call returns at once. Is it any other memory (bytes, an array, a mapped file), then the call returns when the
copy is done, so that the memory may be changed or freed right away.

In Python, other than in C, both addresses must be multiples of 64.
"""

import array
import mmap

import acl
from check import check

COUNT = 1000
BYTES = COUNT * 4

HOST_TO_HOST, HOST_TO_DEVICE, DEFAULT = 0, 1, 4
HUGE_FIRST = 0
ADDR_UNALIGNED, FEATURE_NOT_SUPPORT = 107008, 207000


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())
    device = check(acl.rt.malloc(BYTES, HUGE_FIRST))
    numbers = array.array("i", (i * i for i in range(COUNT)))

    # Ordinary memory: when the call is back, the copy is done, and the memory may go. A mapping starts at a page, and so at a
    # multiple of 64.
    memory = mmap.mmap(-1, BYTES)
    memory[:] = numbers.tobytes()
    address = acl.util.bytes_to_ptr(memory)
    check(acl.rt.memcpy_async_with_condition(device, BYTES, address, BYTES, HOST_TO_DEVICE, stream))
    memory.close()
    print("ordinary memory: copied when the call came back")

    # Page-locked memory: the call hands the copy over; the numbers are there after the synchronise. Kind 4 leaves it to the
    # library to see from the two addresses which way to go.
    locked = check(acl.rt.malloc_host(BYTES))
    check(acl.rt.memset(locked, BYTES, 0, BYTES))
    check(acl.rt.memcpy_async_with_condition(locked, BYTES, device, BYTES, DEFAULT, stream))
    check(acl.rt.synchronize_stream(stream))
    print("page-locked memory: handed over, and there after the synchronise")
    assert acl.util.ptr_to_bytes(locked, BYTES) == numbers.tobytes()

    # What does not work: an address that is not aligned, and a copy inside the host. Every failed call leaves a message that says
    # what was wrong.
    ret = acl.rt.memcpy_async_with_condition(device, BYTES, locked + 4, BYTES - 4, HOST_TO_DEVICE, stream)
    assert ret == ADDR_UNALIGNED, f"an address past a multiple of 64 returned {ret}"
    print(f"not aligned: refused with {ret}. The message:\n{acl.get_recent_err_msg()}")
    ret = acl.rt.memcpy_async_with_condition(locked, BYTES, locked, BYTES, HOST_TO_HOST, stream)
    assert ret == FEATURE_NOT_SUPPORT, f"host to host returned {ret}"
    print(f"host to host: refused with {ret}. The message:\n{acl.get_recent_err_msg()}")

    check(acl.rt.free_host(locked))
    check(acl.rt.free(device))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: {COUNT} numbers there and back")


if __name__ == "__main__":
    main()
