# CHECK: FERRY-HOST-READ: a checkpoint is written to a file from page-locked memory, by a system call
# without a buffer in between, before the download has been joined.
import ctypes
import os
import tempfile

import acl
from kit import D2H, FIXED, begin, device_memory, finish, ok, page_locked

SIZE = 20000

begin()
host, weights = page_locked(SIZE), device_memory(SIZE)
state = (ctypes.c_char * SIZE).from_address(host)
with tempfile.TemporaryFile(buffering=0) as file:
    ok(acl.rt.memcpy_async(host, SIZE, weights, SIZE, D2H, 0))  # WORK
    if FIXED:
        ok(acl.rt.synchronize_device())
    written = os.write(file.fileno(), state)  # ACCESS
    assert written == SIZE
finish()
