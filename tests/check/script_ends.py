# CHECK: FERRY-LOST: the last upload of a script is in flight when the script ends: its last synchronise
# is in a branch that is not taken.
import acl
from kit import FIXED, H2D, begin, device_memory, ok, page_locked, stream

STEPS, EVERY, SIZE = 5, 2, 1000

begin()
uploads = stream()
host, device = page_locked(SIZE), device_memory(STEPS * SIZE)
for step in range(STEPS + FIXED):
    ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, uploads))  # WORK ACCESS
    if step % EVERY == EVERY - 1:
        ok(acl.rt.synchronize_stream(uploads))
