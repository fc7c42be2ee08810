"""Lets torch_npu be imported beside a CUDA build of torch.

Both register the names of their allocator's settings with one class of torch's, which ends the process at a name that it has already
("Duplicated key"). An import hook has a small library of ours (torch_npu_settings.cc) take the names while torch_npu's own library is
loaded. Every Python process installs the hook when it starts, child processes included: ferry_acl.pth does it for an installed
wheel, sitecustomize.py for an installed tree. Until torch_npu is imported it costs one comparison for each module.
"""
import os
import sys

# Folders of installed trees whose sitecustomize.py has run.
trees = set()
LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtorch_npu_settings.so")


class Finder:
    """Finds the one module that loads torch_npu's library, as the finder behind it does, with our library around the load."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "torch_npu._C":
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            create = spec.loader.create_module
            spec.loader.create_module = lambda spec: with_settings(create, spec)
        return spec


def with_settings(create, spec):
    """Loads the module while settings may be registered twice."""
    import ctypes

    settings = ctypes.PyDLL(LIBRARY, ctypes.RTLD_GLOBAL)
    try:
        return create(spec)
    finally:
        settings.ferry_torch_npu_loaded()


def install():
    """Installs the hook, once. A package that was built without a compiler for C++ has no library, and needs no hook."""
    if Finder not in sys.meta_path and os.path.exists(LIBRARY):
        sys.meta_path.insert(0, Finder)


install()
