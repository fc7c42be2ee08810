# CHECK: FERRY-HOST-WRITE: ctypes.memmove puts the next request's tokens into the source of an upload. The
# fixed twin has a second half for it.
# NEEDS: userfaultfd
import array
import ctypes

import acl
from kit import FIXED, H2D, begin, device_memory, finish, ok, page_locked, stream

HALF = 1024

begin()
uploads = stream()
host, device = page_locked(2 * HALF), device_memory(HALF)
tokens = array.array("i", range(HALF // 4))
address, _ = tokens.buffer_info()
ctypes.memmove(host, address, HALF)
ok(acl.rt.memcpy_async(device, HALF, host, HALF, H2D, uploads))  # WORK
ctypes.memmove(host + (HALF if FIXED else 0), address, HALF)  # ACCESS
finish()
