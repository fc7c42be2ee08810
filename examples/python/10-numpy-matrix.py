"""10: a part of a NumPy matrix, packed on the device, and back, with acl.rt.memcpy2d_async.

A part of a matrix is a view: its rows are as far apart as those of the whole, and that distance, its stride, is the pitch of the
copy. On the device the rows lie side by side. Nothing is copied on the host: the copy takes the rows from where they are.
"""

import acl
import numpy
from check import check

ROWS, COLUMNS = 300, 512

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HUGE_FIRST = 0
FLOAT32 = 11  # NumPy's number of the type


def send(device, part, stream):
    """From a part of a matrix to rows side by side on the device."""
    height, width = part.shape[0], part.shape[1] * part.itemsize
    # acl.util.numpy_to_ptr would tell the same address, and warn that the rows are not side by side, which we know.
    check(acl.rt.memcpy2d_async(device, width, part.ctypes.data, part.strides[0], width, height, HOST_TO_DEVICE, stream))


def fetch(part, device, stream):
    """And back."""
    height, width = part.shape[0], part.shape[1] * part.itemsize
    check(acl.rt.memcpy2d_async(part.ctypes.data, part.strides[0], device, width, width, height, DEVICE_TO_HOST, stream))


def main():
    check(acl.init())
    check(acl.rt.set_device(0))
    stream = check(acl.rt.create_stream())

    matrix = numpy.arange(ROWS * COLUMNS, dtype=numpy.float32).reshape(ROWS, COLUMNS)
    part = matrix[100:150, 32:72]
    device = check(acl.rt.malloc(part.nbytes, HUGE_FIRST))
    print(f"{part.shape[0]} rows of {part.shape[1]} numbers: {part.strides[0]} bytes apart here, {part[0].nbytes} there")

    # The memory of an array is ordinary memory: each call returns when its copy is done.
    result = numpy.zeros_like(matrix)
    send(device, part, stream)
    fetch(result[100:150, 32:72], device, stream)
    assert (result[100:150, 32:72] == part).all()
    assert numpy.count_nonzero(result) == part.size, "the bytes between the rows are left alone"

    # For copies that only hand work over, let the array lie in page-locked memory. It is a view too: free the memory last.
    locked = check(acl.rt.malloc_host(matrix.nbytes))
    other = acl.util.ptr_to_numpy(locked, matrix.shape, FLOAT32)
    other[:] = 0
    fetch(other[:50, :40], device, stream)
    check(acl.rt.synchronize_stream(stream))
    assert (other[:50, :40] == part).all()

    del other
    check(acl.rt.free_host(locked))
    check(acl.rt.free(device))
    check(acl.rt.destroy_stream(stream))
    check(acl.rt.reset_device(0))
    check(acl.finalize())
    print(f"ok: {part.size} numbers packed on the device")


if __name__ == "__main__":
    main()
