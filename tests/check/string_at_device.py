# CHECK: FERRY-DEVICE-POINTER: ctypes.string_at is given a device address, which the CPU cannot read.
# EXIT: 139
import ctypes

import acl
from kit import D2H, FIXED, begin, device_memory, finish, ok, page_locked

SIZE = 100

begin()
device, host = device_memory(SIZE), page_locked(SIZE)
ok(acl.rt.memcpy(host, SIZE, device, SIZE, D2H))
print(ctypes.string_at(host if FIXED else device, SIZE)[:3])  # ACCESS
finish()
