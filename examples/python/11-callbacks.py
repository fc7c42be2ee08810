"""11: a Python function that a stream calls, with acl.rt.launch_callback.

A callback is a task like any other: it runs when the tasks before it are done. Which thread runs it is the program's choice: the
thread is started, made known to the stream, and asks for callbacks in a loop. A callback must not hand work over, allocate,
free or wait.
"""

import threading

import acl
from check import check

CHUNKS, CHUNK = 4, 1000

DEVICE_TO_HOST = 2
HUGE_FIRST = 0
NO_BLOCK, BLOCK = 0, 1
REPORT_TIMEOUT = 507012


def run_callbacks(args):
    """The thread: runs what is due until it is told that no more will come. It needs no device of its own for that."""
    subscribed, done = args
    subscribed.wait()
    while not done.is_set():
        ret = acl.rt.process_report(100)
        if ret != REPORT_TIMEOUT:
            check(ret)


def look(args):
    """A callback gets the list that was launched with it."""
    memory, sums = args
    sums.append(sum(acl.util.ptr_to_bytes(memory, CHUNK)))
    print(f"chunk {len(sums)} is back: its bytes add up to {sums[-1]}")


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())
    host = check(acl.rt.malloc_host(CHUNK))
    device = check(acl.rt.malloc(CHUNK, HUGE_FIRST))

    subscribed, done = threading.Event(), threading.Event()
    thread = check(acl.util.start_thread(run_callbacks, [subscribed, done]))
    check(acl.rt.subscribe_report(thread, stream))
    subscribed.set()

    # Every chunk comes back into the same memory. A blocking callback holds the stream until it has looked at it; with NO_BLOCK
    # the next chunk might overwrite what it reads.
    sums = []
    for i in range(CHUNKS):
        check(acl.rt.memset_async(device, CHUNK, i, CHUNK, stream))
        check(acl.rt.memcpy_async(host, CHUNK, device, CHUNK, DEVICE_TO_HOST, stream))
        check(acl.rt.launch_callback(look, [host, sums], BLOCK, stream))
    check(acl.rt.synchronize_stream(stream))
    assert sums == [i * CHUNK for i in range(CHUNKS)], sums

    # stop_thread does not stop the thread, it waits until it has ended.
    done.set()
    check(acl.util.stop_thread(thread))
    check(acl.rt.unsubscribe_report(thread, stream))
    check(acl.rt.free_host(host))
    check(acl.rt.free(device))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: {CHUNKS} callbacks, each in its turn")


if __name__ == "__main__":
    main()
