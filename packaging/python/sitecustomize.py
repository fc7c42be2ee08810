"""Python runs this when it starts with an installed tree in PYTHONPATH, as set_env.sh and `ferry run` put it there. A wheel does the same
by ferry_acl.pth, which Python does not look for in PYTHONPATH.
"""
import os
import sys

import ferry_acl._torch_npu  # noqa: F401


def run_the_hidden_one():
    """Runs the sitecustomize that would have been found without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.realpath(__file__))
    folders = [os.path.realpath(folder) for folder in sys.path]
    # A tree may be there by several paths, and so may several trees: each runs once.
    done = ferry_acl._torch_npu.trees
    done.add(here)
    first = folders.index(here) if here in folders else len(folders)
    behind = [name for name, folder in zip(sys.path[first:], folders[first:]) if folder not in done]
    spec = PathFinder.find_spec(__name__, behind)
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


run_the_hidden_one()
