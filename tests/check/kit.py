"""What the twins in Python share: the choice of the twin, checked calls, and memory that is initialised.

Marked lines never stand in this file.
"""

import sys

import acl

FIXED = sys.argv[1:] == ["fixed"]
H2D, D2H, D2D = 1, 2, 3
UINT8, INT32, FLOAT32 = 2, 5, 11  # NumPy's numbers of types
PINNED = 0x10000000  # of host_register_v2


def ok(result):
    """Ends the program unless the call succeeded. Returns its output, if it has one."""
    *outputs, ret = result if isinstance(result, tuple) else (result,)
    if ret != 0:
        sys.exit(f"{ret}: {acl.get_recent_err_msg()}")
    return outputs[0] if outputs else None


def begin():
    ok(acl.init())
    ok(acl.rt.set_device(0))


def finish():
    """Joins all work of device 0: whatever a program left in flight is in flight no longer."""
    ok(acl.rt.synchronize_device())
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())


def stream():
    return ok(acl.rt.create_stream())


def event():
    return ok(acl.rt.create_event())


def page_locked(size):
    """Page-locked host memory in which every byte is 1."""
    address = ok(acl.rt.malloc_host(size))
    acl.util.ptr_to_numpy(address, (size,), UINT8).fill(1)
    return address


def device_memory(size):
    """Device memory in which every byte is 2."""
    address = ok(acl.rt.malloc(size, 0))
    ok(acl.rt.memset(address, size, 2, size))
    return address
