# CHECK: FERRY-HOST-READ: results go to a thread through a queue. Before it reads one, the thread
# synchronises a stream of its own in place of the one that brings the result.
import queue
import threading

import acl
import numpy
from kit import D2H, FIXED, UINT8, begin, device_memory, finish, ok, page_locked, stream

SIZE = 5000
results = queue.Queue()


def consume():
    ok(acl.rt.set_device(0))
    own = stream()
    host, downloads = results.get()
    ok(acl.rt.synchronize_stream(downloads if FIXED else own))
    view = acl.util.ptr_to_numpy(host, (SIZE,), UINT8)
    print(numpy.count_nonzero(view))  # ACCESS
    ok(acl.rt.reset_device(0))


begin()
downloads = stream()
host, device = page_locked(SIZE), device_memory(SIZE)
consumer = threading.Thread(target=consume)
consumer.start()
ok(acl.rt.memcpy_async(host, SIZE, device, SIZE, D2H, downloads))  # WORK
results.put((host, downloads))
consumer.join()
finish()
