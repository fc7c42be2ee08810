"""Device memory of one machine to a device of another and back: 8 MiB through page-locked memory and Mooncake's engine.

    python transfer.py receive 5555      on one machine
    python transfer.py send 5555         on the other; both on one machine here

The sender copies from its device to page-locked memory, and writes that into page-locked memory of the receiver. The receiver copies it to its
device, changes it there, and copies it out again; the sender reads it from there, and compares every byte with what it should be.
"""

import sys

import acl
from side import DEVICE_TO_HOST, HOST_TO_DEVICE, Line, Side, check, pattern, sent

SIZE = 8 << 20
# What the receiver writes over the beginning, to show that the bytes were on its device.
MARK = 1 << 20


def send(port):
    side, line = Side(), Line.connect(port)
    content = pattern(SIZE, seed=1)
    device, staging = side.device_memory(SIZE, content), side.page_locked(SIZE)
    there = line.hear()

    # Down from the device. The engine must not send before the copy has ended.
    check(acl.rt.memcpy_async(staging, SIZE, device, SIZE, DEVICE_TO_HOST, side.stream))
    check(acl.rt.synchronize_stream(side.stream))
    sent(side.engine.transfer_sync_write(there["name"], staging, there["staging"], SIZE), "transfer_sync_write")
    line.tell(arrived=SIZE)

    # What comes back goes to another place on the device.
    line.hear()
    back = side.device_memory(SIZE)
    sent(side.engine.transfer_sync_read(there["name"], staging, there["staging"], SIZE), "transfer_sync_read")
    check(acl.rt.memcpy_async(back, SIZE, staging, SIZE, HOST_TO_DEVICE, side.stream))
    check(acl.rt.synchronize_stream(side.stream))
    assert side.content(back, SIZE) == b"\xee" * MARK + content[MARK:], "what came back is wrong"
    line.tell(done=True)
    print(f"ok: {SIZE} bytes from device to device and back, every byte compared")


def receive(port):
    side = Side()
    device, staging = side.device_memory(SIZE), side.page_locked(SIZE)
    line = Line.listen(port)
    line.tell(name=side.name, staging=staging)
    line.hear()

    # Up to the device, changed there, and down again: the stream keeps the order.
    check(acl.rt.memcpy_async(device, SIZE, staging, SIZE, HOST_TO_DEVICE, side.stream))
    check(acl.rt.memset_async(device, SIZE, 0xEE, MARK, side.stream))
    check(acl.rt.memcpy_async(staging, SIZE, device, SIZE, DEVICE_TO_HOST, side.stream))
    check(acl.rt.synchronize_stream(side.stream))
    line.tell(ready=True)
    line.hear()
    print("ok: received")


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](int(sys.argv[2]))
