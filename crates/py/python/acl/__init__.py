"""AscendCL's runtime from Python, as pyACL has it: streams, events, memory and every way of copying it, without an NPU.

    import acl

    ret = acl.init()
    ret = acl.rt.set_device(0)
    stream, ret = acl.rt.create_stream()

Every function returns its code, 0 for success, alone or behind its outputs; acl.get_recent_err_msg() tells what a failed call
found wrong. Addresses, streams, events and contexts are ints. Only an argument of the wrong type raises, a TypeError.

The parts are acl.rt, the runtime, acl.util, addresses of Python's objects and threads, and acl.sys, versions. This is Ferry, an
independent implementation; it is not connected with Huawei.

PYTEST_DONT_REWRITE: the wheel has a plugin of pytest, which would add names of its own to modules with such a plugin.
"""

from acl._acl import (
    finalize,
    finalize_reference,
    float16_to_float,
    float_to_float16,
    get_recent_err_msg,
    get_soc_name,
    get_version,
    get_version_str,
    init,
    rt,
    sys,
    util,
)

# Without sys: `from acl import *` is not to replace Python's.
__all__ = [
    "finalize",
    "finalize_reference",
    "float16_to_float",
    "float_to_float16",
    "get_recent_err_msg",
    "get_soc_name",
    "get_version",
    "get_version_str",
    "init",
    "rt",
    "util",
]
