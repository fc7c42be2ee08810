# CHECK: FERRY-HOST-WRITE: the first columns of a NumPy matrix are uploaded with its stride as pitch, and
# the next column is prepared meanwhile: the last of those that are in flight, by a wrong index.
import acl
from kit import FIXED, FLOAT32, H2D, begin, device_memory, finish, ok, page_locked, stream

ROWS, COLUMNS, SENT = 50, 20, 8

begin()
uploads = stream()
host, device = page_locked(ROWS * COLUMNS * 4), device_memory(ROWS * SENT * 4)
matrix = acl.util.ptr_to_numpy(host, (ROWS, COLUMNS), FLOAT32)
ok(acl.rt.memcpy2d_async(device, SENT * 4, host, COLUMNS * 4, SENT * 4, ROWS, H2D, uploads))  # WORK
matrix[:, SENT if FIXED else SENT - 1] = 1.5  # ACCESS
finish()
