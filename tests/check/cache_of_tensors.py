# CHECK: FERRY-USE-AFTER-FREE: a dict remembers the address of a tensor that has been freed, and the next
# lookup copies from it.
import acl
from kit import D2D, FIXED, begin, device_memory, finish, ok, stream

SIZE = 2048
addresses = {}


def free(name):
    ok(acl.rt.free(addresses[name]))  # WORK
    if FIXED:
        del addresses[name]


def find(name):
    if name not in addresses:
        addresses[name] = device_memory(SIZE)
    return addresses[name]


begin()
copies = stream()
output = device_memory(SIZE)
find("weights")
free("weights")
ret = acl.rt.memcpy_async(output, SIZE, find("weights"), SIZE, D2D, copies)  # ACCESS
assert (ret == 0) == FIXED, ret
finish()
