# CHECK: FERRY-HOST-READ: a NumPy array of the program's own is registered as page-locked, and its sum is
# taken while a download writes it.
# NEEDS: userfaultfd
import mmap

import acl
import numpy
from kit import D2H, FIXED, PINNED, begin, device_memory, event, finish, ok, stream

SIZE = 16 * 4096

begin()
downloads, copied = stream(), event()
device = device_memory(SIZE)
memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own = numpy.frombuffer(memory, dtype="uint8")
address = acl.util.numpy_to_ptr(own)
ok(acl.rt.host_register_v2(address, SIZE, PINNED))
ok(acl.rt.memcpy_async(address, SIZE, device, SIZE, D2H, downloads))  # WORK
ok(acl.rt.record_event(copied, downloads))
if FIXED:
    ok(acl.rt.synchronize_event(copied))
print(own[1:].max())  # ACCESS
ok(acl.rt.synchronize_event(copied))
ok(acl.rt.host_unregister(address))
finish()
