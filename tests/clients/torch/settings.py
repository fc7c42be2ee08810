"""torch's allocator settings and torch_npu's beside each other, in this process and in children."""
import os
import subprocess
import sys

import torch
from kit import main, same, values

SETTINGS = (
    "max_split_size_mb:64",
    "throw_on_cudamalloc_oom:True",
    "release_lock_on_npumalloc:True",
    "pinned_reserve_segment_size_mb:16",
    "roundup_power2_divisions:[256:1,512:2], pinned_use_cuda_host_register:True",
)


def settings_of_both_packages():
    torch.npu.init()
    for settings in SETTINGS:
        torch._C._accelerator_setAllocatorSettings(settings)
    try:
        torch._C._accelerator_setAllocatorSettings("no_such_setting:1")
    except ValueError as error:
        assert "no_such_setting" in str(error), error
    else:
        raise AssertionError("an unknown setting was taken")
    same(values(4096).npu().cpu(), values(4096), "afterwards")


def from_the_environment():
    code = "import torch; x = torch.arange(4); assert x.npu().cpu().tolist() == [0, 1, 2, 3]; print('ok')"
    for name, value in (("PYTORCH_CUDA_ALLOC_CONF", "throw_on_cudamalloc_oom:True"), ("PYTORCH_ALLOC_CONF", "max_split_size_mb:64"),
                        ("PYTORCH_NPU_ALLOC_CONF", "max_split_size_mb:64"), ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")):
        more = "import torch_npu; " if "AUTOLOAD" in name else ""
        ran = subprocess.run([sys.executable, "-c", more + code], env=dict(os.environ, **{name: value}), capture_output=True, text=True)
        assert ran.returncode == 0 and ran.stdout.endswith("ok\n"), f"{name}={value}: {ran.stdout}{ran.stderr}"


main(settings_of_both_packages, from_the_environment)
