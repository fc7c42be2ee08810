"""Lets torch_npu be imported beside a CUDA build of torch, and runs its operators if FERRY_TORCH is 1.

Both register the names of their allocator's settings with one class of torch's, which ends the process at a name that it has already
("Duplicated key"). An import hook has a small library of ours (torch_npu_settings.cc) take the names while torch_npu's own library is
loaded. Every Python process installs the hook when it starts, child processes included: ferry_acl.pth does it for an installed
wheel, sitecustomize.py for an installed tree. Until torch_npu is imported it costs one comparison for each module.

With FERRY_TORCH=1, which `ferry run --torch` sets, the same hook imports ferry_acl.torch when torch_npu has been imported, so that programs
need not.
"""
import os
import sys

# Folders of installed trees whose sitecustomize.py has run.
trees = set()
NAMES = ("torch_npu", "torch_npu._C")
LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtorch_npu_settings.so")


class Finder:
    """Finds torch_npu and the one module that loads its library, as the finder behind it does, with our part around the load."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in NAMES:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        if name == "torch_npu":
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: then_operators(run, module)
        elif os.path.exists(LIBRARY):
            create = spec.loader.create_module
            spec.loader.create_module = lambda spec: with_settings(create, spec)
        return spec


def then_operators(run, module):
    """Imports torch_npu, and has the CPU run its operators if the environment says so."""
    run(module)
    if os.environ.get("FERRY_TORCH") == "1":
        import ferry_acl.torch  # noqa: F401


def with_settings(create, spec):
    """Loads the module while settings may be registered twice. A package that was built without a compiler for C++ has no library for it."""
    import ctypes

    settings = ctypes.PyDLL(LIBRARY, ctypes.RTLD_GLOBAL)
    try:
        return create(spec)
    finally:
        settings.ferry_torch_npu_loaded()


def install():
    """Installs the hook, once."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


install()
