# CHECK: FERRY-HOST-READ: ptr_to_bytes copies a result out while the 2-D copy that brings it is in flight.
# It reads at once and waits for nothing.
# NEEDS: userfaultfd
import acl
from kit import D2H, FIXED, begin, device_memory, finish, ok, page_locked, stream

ROWS, WIDTH, PITCH = 16, 48, 64

begin()
downloads = stream()
host, device = page_locked(ROWS * WIDTH), device_memory(ROWS * PITCH)
ok(acl.rt.memcpy2d_async(host, WIDTH, device, PITCH, WIDTH, ROWS, D2H, downloads))  # WORK
if FIXED:
    ok(acl.rt.synchronize_stream(downloads))
print(len(acl.util.ptr_to_bytes(host, ROWS * WIDTH)))  # ACCESS
finish()
