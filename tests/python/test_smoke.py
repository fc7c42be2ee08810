"""The first thing to look at when everything fails: one round trip, in a fresh interpreter as a user's program has it."""

import subprocess
import sys

PROGRAM = """
import acl

def ok(result):
    *values, ret = result if isinstance(result, tuple) else (result,)
    assert ret == 0, (ret, acl.get_recent_err_msg())
    return values[0] if len(values) == 1 else values

sent = bytes(range(256)) * 16
size = len(sent)
ok(acl.init())
ok(acl.rt.set_device(0))
stream = ok(acl.rt.create_stream())
device = ok(acl.rt.malloc(size, 2))
host = ok(acl.rt.malloc_host(size))
ok(acl.rt.memcpy(host, size, acl.util.bytes_to_ptr(sent), size, 0))
ok(acl.rt.memcpy_async(device, size, host, size, 1, stream))
ok(acl.rt.synchronize_stream(stream))
ok(acl.rt.memset(host, size, 0, size))
ok(acl.rt.memcpy_async(host, size, device, size, 2, stream))
ok(acl.rt.synchronize_stream(stream))
assert acl.util.ptr_to_bytes(host, size) == sent
ok(acl.rt.free(device))
ok(acl.rt.free_host(host))
ok(acl.rt.destroy_stream(stream))
ok(acl.rt.reset_device(0))
ok(acl.finalize())
print("there and back")
"""


def test_a_program_moves_bytes_to_a_device_and_back():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "there and back\n", "")
