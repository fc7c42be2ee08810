"""06: device memory that two processes share.

One process makes the memory and asks for a key: a string that stands for it. The other turns the key into an address of its own, of
the same bytes. How the key gets across is the program's business; here it is a pipe.
"""

import os
import subprocess
import sys

import acl
from check import check

COUNT = 100000
BYTES = COUNT * 4
KEY_LENGTH = 65

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HUGE_FIRST = 0
INT32 = 5  # NumPy's number of the type


def start():
    """A stream, and numbers in page-locked memory."""
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())
    host = check(acl.rt.malloc_host(BYTES))
    return stream, host, acl.util.ptr_to_numpy(host, (COUNT,), INT32)


def end(stream, host):
    check(acl.rt.free_host(host))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())


def owner():
    """The process that makes the memory, fills it, and gets it back with every number doubled."""
    # A new process, not a fork: what the library holds does not survive one.
    guest = subprocess.Popen(
        [sys.executable, __file__, "guest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stream, host, numbers = start()
    device = check(acl.rt.malloc(BYTES, HUGE_FIRST))
    numbers[:] = range(COUNT)
    check(acl.rt.memcpy_async(device, BYTES, host, BYTES, HOST_TO_DEVICE, stream))
    check(acl.rt.synchronize_stream(stream))

    # A key for the memory, and the one process that may use it: a list, because there may be several.
    key = check(acl.rt.ipc_mem_get_export_key(device, BYTES, KEY_LENGTH, 0))
    check(acl.rt.ipc_mem_set_import_pid(key, [int(guest.stdout.readline())]))

    # The other process gets the key, and says when it is through with the memory.
    said, _ = guest.communicate(key + "\n")
    print(f"the other process: {said.strip()}")
    assert guest.returncode == 0, f"the other process ended with {guest.returncode}"
    check(acl.rt.memcpy_async(host, BYTES, device, BYTES, DEVICE_TO_HOST, stream))
    check(acl.rt.synchronize_stream(stream))
    assert all(numbers[i] == 2 * i for i in range(0, COUNT, 997))

    # The process that made the key closes it last, and frees the memory after that.
    check(acl.rt.ipc_mem_close(key))
    check(acl.rt.free(device))
    end(stream, host)
    print(f"ok: {COUNT} numbers filled here, doubled there")


def guest():
    """The process that gets the key: it reads the memory, doubles every number, and writes them back."""
    stream, host, numbers = start()
    print(os.getpid(), flush=True)

    key = input()
    shared = check(acl.rt.ipc_mem_import_by_key(key, 0))
    check(acl.rt.memcpy_async(host, BYTES, shared, BYTES, DEVICE_TO_HOST, stream))
    check(acl.rt.synchronize_stream(stream))
    print(f"numbers {numbers[0]} to {numbers[-1]} have come")
    numbers *= 2
    check(acl.rt.memcpy_async(shared, BYTES, host, BYTES, HOST_TO_DEVICE, stream))
    check(acl.rt.synchronize_stream(stream))

    # Not freed, but closed: the memory is the other's.
    check(acl.rt.ipc_mem_close(key))
    end(stream, host)


if __name__ == "__main__":
    guest() if sys.argv[1:] == ["guest"] else owner()
