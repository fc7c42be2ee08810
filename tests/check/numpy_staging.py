# CHECK: FERRY-HOST-WRITE: the array behind an upload is filled with the next batch while the upload is in
# flight.
import acl
import numpy
from kit import FIXED, FLOAT32, H2D, begin, device_memory, finish, ok, page_locked, stream

STEPS, COUNT = 3, 4096
SIZE = COUNT * 4

begin()
uploads = stream()
host, device = page_locked(SIZE), device_memory(SIZE)
batch = acl.util.ptr_to_numpy(host, (COUNT,), FLOAT32)
for step in range(STEPS):
    batch[:] = numpy.arange(COUNT, dtype="float32") * step  # ACCESS
    ok(acl.rt.memcpy_async(device, SIZE, host, SIZE, H2D, uploads))  # WORK
    if FIXED:
        ok(acl.rt.synchronize_stream(uploads))
finish()
