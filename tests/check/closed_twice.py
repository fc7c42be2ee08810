# CHECK: FERRY-DOUBLE-FREE: a buffer object is closed by the program and again by its finaliser.
import acl
from kit import FIXED, begin, finish, page_locked

codes = []


class Buffer:
    def __init__(self, size):
        self.address = page_locked(size)

    def close(self):
        if self.address:
            codes.append(acl.rt.free_host(self.address))  # ACCESS WORK
            if FIXED:
                self.address = 0

    __del__ = close


begin()
buffer = Buffer(4096)
buffer.close()
del buffer
assert (codes == [0]) == FIXED, codes
finish()
