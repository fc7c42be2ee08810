"""A C++ extension, built by torch's own builder against the toolkit's prefix, that copies between tensors with the C API and the streams that
torch_npu uses.
"""
import os
import sys
import sysconfig
import tempfile

import torch
from kit import main, same, values

SOURCE = r"""
#include <torch/extension.h>
#include "acl/acl.h"
#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_op_compiler.h"
#include "acl/acl_prof.h"
#include "hccl/hccl.h"

// Behind what torch_npu has queued in the stream, which is given as a number.
static void copy(torch::Tensor dst, const torch::Tensor &src, int64_t stream)
{
    TORCH_CHECK(dst.nbytes() == src.nbytes() && dst.is_contiguous() && src.is_contiguous());
    aclError code = aclrtMemcpyAsync(dst.data_ptr(), dst.nbytes(), src.data_ptr(), src.nbytes(), ACL_MEMCPY_DEFAULT,
                                     reinterpret_cast<aclrtStream>(stream));
    TORCH_CHECK(code == ACL_SUCCESS, "aclrtMemcpyAsync: ", code, " ", aclGetRecentErrMsg());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("copy", &copy); }
"""


def build(folder):
    from setuptools import setup
    from torch.utils import cpp_extension

    home = os.environ["ASCEND_HOME_PATH"]
    source = os.path.join(folder, "ferry_extension.cpp")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    extension = cpp_extension.CppExtension("ferry_extension", [source], include_dirs=[os.path.join(home, "include")],
                                           library_dirs=[os.path.join(home, "lib64")], libraries=["ascendcl"], extra_compile_args=["-O0"])
    before = os.getcwd()
    os.chdir(folder)
    try:
        setup(name="ferry_extension", ext_modules=[extension], script_args=["--quiet", "build_ext", "--inplace"],
              cmdclass={"build_ext": cpp_extension.BuildExtension.with_options(use_ninja=False)})
    finally:
        os.chdir(before)


def an_extension_copies_tensors():
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        print(f"not tried: there is no {header}")
        return
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        sys.path.insert(0, folder)
        import ferry_extension

        source, back = values(1 << 20, 3).pin_memory(), torch.zeros(1 << 20, dtype=torch.uint8).pin_memory()
        first, second = (torch.empty(1 << 20, dtype=torch.uint8, device="npu") for _ in range(2))
        torch.npu.synchronize()
        stream = torch.npu.current_stream()
        for one, other in ((first, source), (second, first), (back, second)):
            ferry_extension.copy(one, other, stream.npu_stream)
        stream.synchronize()
        same(back, source, "through the extension")
        same(second.cpu(), source, "torch's view")


main(an_extension_copies_tensors)
