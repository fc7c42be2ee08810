"""pyACL's module acl and torch_npu in one process, either first: one engine, so that each knows the other's memory and streams."""
import subprocess
import sys

CODE = """
{imports}
import numpy as np
import torch_npu

def ok(result):
    *outputs, code = result if isinstance(result, tuple) else (result,)
    assert code == 0, (code, acl.get_recent_err_msg())
    return outputs[0] if outputs else None

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
there = torch.empty(4096, dtype=torch.uint8, device="npu")
stream = torch.npu.Stream()
torch.npu.synchronize()
source = (np.arange(4096) * 7 % 251).astype(np.uint8)
ok(acl.rt.memcpy(there.data_ptr(), 4096, source.ctypes.data, 4096, HOST_TO_DEVICE))
assert (there.cpu().numpy() == source).all(), "torch does not see what acl wrote"
back = torch.zeros(4096, dtype=torch.uint8).pin_memory()
ok(acl.rt.memcpy_async(back.data_ptr(), 4096, there.data_ptr(), 4096, DEVICE_TO_HOST, stream.npu_stream))
stream.synchronize()
assert (back.numpy() == source).all(), "torch's stream did not wait for acl's copy"
loaded = {{line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("libascendcl.so")}}
assert len(loaded) == 1, loaded
print("ok")
"""

for imports in ("import acl, torch", "import torch, acl"):
    ran = subprocess.run([sys.executable, "-c", CODE.format(imports=imports)], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stdout.endswith("ok\n"), f"{imports}: {ran.stdout}\n{ran.stderr}"
print("ok: acl and torch_npu share one engine, whichever comes first")
