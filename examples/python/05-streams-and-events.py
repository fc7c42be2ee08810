"""05: two streams that work at the same time, and an event that puts one behind the other.

Tasks of one stream run one after the other. Tasks of different streams run whenever they can, unless an event says otherwise:
recorded in one stream it stands for everything submitted there so far, and a stream that waits for it goes on when that is done.
The program itself does not wait for any of this until it wants the result.
"""

import acl
from check import check

CHUNKS, CHUNK = 8, 256 * 1024
BYTES = CHUNKS * CHUNK

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST = 0, 1, 2
HUGE_FIRST = 0


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    down = check(acl.rt.create_stream())
    up = check(acl.rt.create_stream())
    source = check(acl.rt.malloc_host(BYTES))
    result = check(acl.rt.malloc_host(BYTES))
    device = check(acl.rt.malloc(BYTES, HUGE_FIRST))
    content = bytes((i // 1000 + i) % 256 for i in range(BYTES))
    # A synchronous copy works between any two places, inside the host too.
    check(acl.rt.memcpy(source, BYTES, acl.util.bytes_to_ptr(content), BYTES, HOST_TO_HOST))
    check(acl.rt.memset(result, BYTES, 0, BYTES))

    # Each chunk goes down in one stream and comes back in the other, as soon as it has arrived: while chunk 3 comes back, chunk 4
    # goes down.
    begin = check(acl.rt.create_event())
    end = check(acl.rt.create_event())
    arrived = [check(acl.rt.create_event()) for _ in range(CHUNKS)]
    check(acl.rt.record_event(begin, down))
    for i, event in enumerate(arrived):
        at = i * CHUNK
        check(acl.rt.memcpy_async(device + at, CHUNK, source + at, CHUNK, HOST_TO_DEVICE, down))
        # Mind the orders: the event comes first in one call, the stream in the other.
        check(acl.rt.record_event(event, down))
        check(acl.rt.stream_wait_event(up, event))
        check(acl.rt.memcpy_async(result + at, CHUNK, device + at, CHUNK, DEVICE_TO_HOST, up))
    check(acl.rt.record_event(end, down))

    # Waiting for the second stream is enough: its last task waits for the last chunk of the first.
    check(acl.rt.synchronize_stream(up))
    assert acl.util.ptr_to_bytes(result, BYTES) == content, "the bytes that came back are not the ones that went"
    # The time between two events of a stream, once both are done.
    check(acl.rt.synchronize_stream(down))
    ms = check(acl.rt.event_elapsed_time(begin, end))
    print(f"going down took {ms:.3f} ms")

    for event in (*arrived, begin, end):
        check(acl.rt.destroy_event(event))
    check(acl.rt.destroy_stream(down))
    check(acl.rt.destroy_stream(up))
    check(acl.rt.free_host(source))
    check(acl.rt.free_host(result))
    check(acl.rt.free(device))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: {BYTES} bytes down and up, chunk by chunk")


if __name__ == "__main__":
    main()
