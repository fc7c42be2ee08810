"""A small program on the installed wheel: bytes go to a device and back, and C has part in it where it is asked to.

usage: engine.py FOLDER [before NAME | after NAME]: the process loads the C library under this name before or after the module,
and both must then be one engine, that of FOLDER. Says `ok:` and which library it was.
"""

import ctypes
import sys
from pathlib import Path

folder, when, name = Path(sys.argv[1]), *(sys.argv[2:] or (None, None))
if when == "before":
    c = ctypes.CDLL(name)

import acl  # noqa: E402

if when == "after":
    c = ctypes.CDLL(name)


def ok(result):
    *values, ret = result if isinstance(result, tuple) else (result,)
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return values[0] if values else None


sent, size = b"there and back", 14
ok(acl.init())
ok(acl.rt.set_device(1))
stream = ok(acl.rt.create_stream())
device = ok(acl.rt.malloc(size, 0))
host = ok(acl.rt.malloc_host(size))
ok(acl.rt.memcpy(device, size, acl.util.bytes_to_ptr(sent), size, 1))
ok(acl.rt.memcpy_async(host, size, device, size, 2, stream))
ok(acl.rt.synchronize_stream(stream))
assert acl.util.ptr_to_bytes(host, size) == sent

if when:
    # What the module has made is known to C: the device of this thread, the memory, the stream.
    number = ctypes.c_int32(-1)
    assert c.aclrtGetDevice(ctypes.byref(number)) == 0 and number.value == 1, number
    assert c.aclrtMemset(ctypes.c_void_p(device), ctypes.c_size_t(size), 7, ctypes.c_size_t(size)) == 0
    assert c.aclrtDestroyStream(ctypes.c_void_p(stream)) == 0
    ok(acl.rt.memcpy(host, size, device, size, 2))
    assert acl.util.ptr_to_bytes(host, size) == b"\7" * size

maps = Path("/proc/self/maps").read_text().splitlines()
libraries = {Path(line.split(maxsplit=5)[5]) for line in maps if "/libascendcl.so" in line}
assert len(libraries) == 1, libraries
library = libraries.pop()
assert folder.resolve() in library.resolve().parents, (library, folder)
ok(acl.finalize())
print(f"ok: {library}")
