"""AscendCL's runtime from Python, as pyACL has it. What this file says is checked against the module by its tests."""

from acl import rt as rt
from acl import sys as sys
from acl import util as util

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

def init(config_path: str | None = None, /) -> int:
    """Initialises acl."""

def finalize() -> int:
    """Shuts acl down, however often it was initialised: all work is waited for, and the default contexts end."""

def finalize_reference() -> tuple[int, int]:
    """Takes one acl.init back; with the last one acl shuts down."""

def get_recent_err_msg() -> str | None:
    """Tells what the calls of this thread that failed found wrong, newest first, and forgets it."""

def get_soc_name() -> str | None:
    """Tells the name of the product, such as Ascend910B1."""

def float16_to_float(value: int, /) -> float:
    """Turns a 16-bit float into a float of Python's."""

def float_to_float16(value: float, /) -> int:
    """Turns a float of Python's into the nearest 16-bit one, the even one of two; infinity for what is too large."""

def get_version() -> tuple[int, int, int, int]:
    """Tells the version of the interface."""

def get_version_str(pkgName: str, /) -> tuple[str, int]:
    """Tells the version of a package."""
