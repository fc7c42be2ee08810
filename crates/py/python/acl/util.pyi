"""Addresses of Python's objects, objects of addresses, and threads.

Without NumPy its types are Any.
"""

from collections.abc import Callable
from typing import Any, SupportsIndex, TypeVar

from numpy import generic
from numpy.typing import NDArray
from typing_extensions import Buffer

_T = TypeVar("_T")
_Item = TypeVar("_Item", bound=generic)

def bytes_to_ptr(data: Buffer | NDArray[Any], /) -> int:
    """Tells where the bytes of an object are. Nothing is copied."""

def ptr_to_bytes(ptr: SupportsIndex, size: SupportsIndex, /) -> bytes:
    """Copies host memory into bytes."""

def numpy_to_ptr(ndarray: NDArray[Any], /) -> int:
    """Tells where the items of a NumPy array are. Nothing is copied. Deprecated: use bytes_to_ptr."""

def numpy_contiguous_to_ptr(ndarray: NDArray[_Item], /) -> tuple[int, NDArray[_Item]]:
    """Makes a NumPy array row by row in one piece, if it is not, and tells where its items are. Deprecated: use bytes_to_ptr."""

def ptr_to_numpy(ptr: SupportsIndex, shape: tuple[SupportsIndex, ...], npy_type: SupportsIndex, /) -> NDArray[Any]:
    """Makes a NumPy array of host memory. It is a view: nothing is copied; what is written to it is written there. Deprecated."""

def start_thread(func: Callable[[list[_T]], object], args_list: list[_T], /) -> tuple[int, int]:
    """Starts a thread that calls func(args_list)."""

def stop_thread(thr_id: SupportsIndex, /) -> int:
    """Waits until a thread that start_thread started has ended. It does not stop it."""
