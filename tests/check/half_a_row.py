# CHECK: FERRY-UNINITIALISED: float16 rows are uploaded into a buffer that was allocated for float32, and
# all of it is downloaded.
import acl
import numpy
from kit import D2H, FIXED, H2D, begin, finish, ok

ROWS, COLUMNS = 8, 32

begin()
there = numpy.ones((ROWS, COLUMNS), dtype="float32" if FIXED else "float16")
back = numpy.zeros((ROWS, COLUMNS), dtype="float32")
device = ok(acl.rt.malloc(back.nbytes, 0))
ok(acl.rt.memcpy(device, back.nbytes, acl.util.numpy_to_ptr(there), there.nbytes, H2D))
ok(acl.rt.memcpy(acl.util.numpy_to_ptr(back), back.nbytes, device, back.nbytes, D2H))  # WORK ACCESS
finish()
