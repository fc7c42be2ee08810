# CHECK: FERRY-HOST-WRITE: a callback sets a threading.Event that says "the staging array is free". It is
# launched before the second of two uploads from that array.
# NEEDS: userfaultfd
import threading

import acl
from kit import FIXED, H2D, UINT8, begin, device_memory, finish, ok, page_locked, stream

SIZE = 8192
is_free, stop = threading.Event(), threading.Event()


def serve(_):
    ok(acl.rt.set_device(0))
    while not stop.is_set():
        acl.rt.process_report(100)
    ok(acl.rt.reset_device(0))


begin()
uploads = stream()
host, device = page_locked(2 * SIZE), device_memory(2 * SIZE)
server = ok(acl.util.start_thread(serve, [None]))
ok(acl.rt.subscribe_report(server, uploads))
ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, uploads))
if not FIXED:
    ok(acl.rt.launch_callback(lambda _: is_free.set(), [None], 1, uploads))
ok(acl.rt.memcpy_async(device + SIZE, SIZE, host + SIZE, SIZE, H2D, uploads))  # WORK
if FIXED:
    ok(acl.rt.launch_callback(lambda _: is_free.set(), [None], 1, uploads))
is_free.wait()
acl.util.ptr_to_numpy(host, (2 * SIZE,), UINT8)[SIZE + 5] = 0  # ACCESS
ok(acl.rt.synchronize_stream(uploads))
stop.set()
ok(acl.util.stop_thread(server))
ok(acl.rt.unsubscribe_report(server, uploads))
finish()
