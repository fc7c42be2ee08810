# CHECK: FERRY-LEAK: a list of device buffers is cleared, which frees no device memory.
# OPTIONS: --leaks
import acl
from kit import FIXED, begin, finish, ok

begin()
buffers = []
for size in (1000, 2000, 3000):
    buffers.append(ok(acl.rt.malloc(size, 0)))  # ACCESS
if FIXED:
    for address in buffers:
        ok(acl.rt.free(address))
buffers.clear()
finish()
