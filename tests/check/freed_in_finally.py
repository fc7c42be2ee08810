# CHECK: FERRY-FREE: a context manager frees its page-locked buffer at the end of the with block, while
# the upload from it is in flight.
import contextlib

import acl
from kit import FIXED, H2D, begin, device_memory, finish, ok, page_locked, stream

SIZE = 3000


@contextlib.contextmanager
def buffer(size):
    host = page_locked(size)
    try:
        yield host
    finally:
        ok(acl.rt.free_host(host))  # ACCESS


begin()
uploads = stream()
device = device_memory(SIZE)
with buffer(SIZE) as host:
    ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, uploads))  # WORK
    if FIXED:
        ok(acl.rt.synchronize_stream(uploads))
finish()
