"""PyTorch and CuPy on streams that they share with acl: no synchronisation between a copy and the kernel that needs it.

Every round puts a copy of acl's and a kernel of theirs into one stream, in both orders, on streams of either side; what came
of all rounds is compared at the end. With `ferry_ext.h`'s two functions the order of the calls is the order of the work.

    FERRY_BACKEND=cuda python torch_streams.py path/to/libascendcl.so

Needs an NVIDIA GPU and PyTorch, and CuPy for its part; says so and passes where there is none.
"""

import ctypes
import sys

ROUNDS, COUNT = 1000, 4096
BYTES = 4 * COUNT
H2D, D2H = 1, 2
CAPTURED = 107027
HOST_FUNC = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Acl:
    """The functions of libascendcl.so that are used here. A code other than 0 is an error, with the library's message."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*args):
            code = function(*args)
            if code != 0:
                message = self.library.aclGetRecentErrMsg()
                raise RuntimeError(f"{name} returned {code}: {message.decode() if message else 'no message'}")

        return call

    def make(self, name, *args):
        """What a function makes and returns through its first argument."""
        made = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(made), *args)
        return made

    def copy(self, to, source, kind, stream):
        bytes_ = ctypes.c_size_t(BYTES)
        self.aclrtMemcpyAsync(ctypes.c_void_p(to), bytes_, ctypes.c_void_p(source), bytes_, kind, stream)

    def adopt(self, native):
        stream = ctypes.c_void_p()
        self.ferryStreamAdopt(ctypes.c_void_p(native), ctypes.byref(stream))
        return stream

    def native(self, stream):
        native = ctypes.c_void_p()
        self.ferryStreamNative(stream, ctypes.byref(native))
        return native.value


class Numbers:
    """ROUNDS rows of numbers in page-locked memory of acl's; row i holds i, i + 1, ..."""

    def __init__(self, acl, torch):
        self.acl, self.torch = acl, torch
        self.memory = acl.make("aclrtMallocHost", ctypes.c_size_t(ROUNDS * BYTES))
        buffer = (ctypes.c_char * (ROUNDS * BYTES)).from_address(self.memory.value)
        self.rows = torch.frombuffer(buffer, dtype=torch.int32).view(ROUNDS, COUNT)
        self.count_up()

    def count_up(self):
        torch = self.torch
        first = torch.arange(ROUNDS, dtype=torch.int32)
        self.rows.copy_(first[:, None] + torch.arange(COUNT, dtype=torch.int32)[None, :])

    def at(self, row):
        return self.memory.value + row * BYTES

    def are_all_there(self):
        torch = self.torch
        want = torch.arange(ROUNDS, dtype=torch.int32)[:, None] + torch.arange(COUNT, dtype=torch.int32)[None, :]
        return bool((self.rows == want).all())

    def free(self):
        del self.rows
        self.acl.aclrtFreeHost(self.memory)


def kernels_after_copies(acl, torch, stream, theirs):
    """A copy of ours brings numbers, a kernel of theirs adds them up, another one wipes them out; and so on."""
    numbers = Numbers(acl, torch)
    tensor = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    sums = torch.zeros(ROUNDS, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(theirs):
        for row in range(ROUNDS):
            acl.copy(tensor.data_ptr(), numbers.at(row), H2D, stream)
            sums[row] = tensor.sum(dtype=torch.int64)
            tensor.zero_()
    theirs.synchronize()
    want = numbers.rows.sum(dim=1, dtype=torch.int64)
    assert bool((sums.cpu() == want).all()), "a kernel ran before the copy that it comes after"
    numbers.free()


def copies_after_kernels(acl, torch, stream, write):
    """`write(row)` has a kernel of theirs write numbers, and a copy of ours fetches them."""
    numbers = Numbers(acl, torch)
    numbers.rows.zero_()
    for row in range(ROUNDS):
        acl.copy(numbers.at(row), write(row), D2H, stream)
    acl.aclrtSynchronizeStream(stream)
    assert numbers.are_all_there(), "a copy ran before the kernel that it comes after"
    numbers.free()


def by_torch(torch, theirs):
    tensor = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    base = torch.arange(COUNT, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()

    def write(row):
        with torch.cuda.stream(theirs):
            torch.add(base, row, out=tensor)
        return tensor.data_ptr()

    return write


def by_cupy(cupy, theirs):
    array, base = cupy.zeros(COUNT, dtype=cupy.int32), cupy.arange(COUNT, dtype=cupy.int32)
    cupy.cuda.Device().synchronize()

    def write(row):
        with theirs:
            cupy.add(base, row, out=array)
        return array.data.ptr

    return write


def functions_in_between(acl, torch, stream, theirs):
    """A host function of the stream writes what a copy of theirs then takes."""
    numbers = Numbers(acl, torch)
    numbers.rows.zero_()
    tensor = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    sums = torch.zeros(ROUNDS, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()

    def fill(row):
        ctypes.memset(numbers.at(row), row % 127, BYTES)

    functions = [HOST_FUNC(lambda _, row=row: fill(row)) for row in range(ROUNDS // 10)]
    with torch.cuda.stream(theirs):
        for row, function in enumerate(functions):
            acl.aclrtLaunchHostFunc(stream, function, None)
            tensor.copy_(numbers.rows[row], non_blocking=True)
            sums[row] = tensor.sum(dtype=torch.int64)
    acl.aclrtSynchronizeStream(stream)
    want = torch.tensor([COUNT * (row % 127) * 0x01010101 for row in range(len(functions))])
    assert bool((sums.cpu()[: len(functions)] == want).all()), "their copy ran before our function was done"
    numbers.free()


def captured_streams_are_refused(acl, torch):
    tensor = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    numbers, theirs = Numbers(acl, torch), torch.cuda.Stream()
    stream, graph = acl.adopt(theirs.cuda_stream), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=theirs):
        tensor.add_(1)
        try:
            acl.copy(tensor.data_ptr(), numbers.at(0), H2D, stream)
        except RuntimeError as why:
            assert str(CAPTURED) in str(why), why
        else:
            raise AssertionError("a copy was captured")
        tensor.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert int(tensor[0]) == 2, "the graph is whole"
    acl.copy(tensor.data_ptr(), numbers.at(0), H2D, stream)
    acl.aclrtDestroyStream(stream)
    numbers.free()


def with_torch(acl, torch):
    for theirs in (torch.cuda.Stream(), torch.cuda.default_stream()):
        stream = acl.adopt(theirs.cuda_stream)
        kernels_after_copies(acl, torch, stream, theirs)
        copies_after_kernels(acl, torch, stream, by_torch(torch, theirs))
        functions_in_between(acl, torch, stream, theirs)
        acl.aclrtDestroyStream(stream)
        torch.ones(8, device="cuda").sum().item()
        print(f"torch's stream {theirs.cuda_stream:#x}, adopted: {ROUNDS} rounds each way")

    stream = acl.make("aclrtCreateStream")
    theirs = torch.cuda.ExternalStream(acl.native(stream))
    kernels_after_copies(acl, torch, stream, theirs)
    copies_after_kernels(acl, torch, stream, by_torch(torch, theirs))
    functions_in_between(acl, torch, stream, theirs)
    torch.cuda.synchronize()
    acl.aclrtDestroyStream(stream)
    print(f"a stream of ours in torch: {ROUNDS} rounds each way")
    captured_streams_are_refused(acl, torch)
    print("a stream that is captured: refused")


def with_cupy(acl, torch):
    try:
        import cupy
    except ImportError as why:
        return print(f"cupy: skipped: {why}")
    stream = acl.make("aclrtCreateStream")
    copies_after_kernels(acl, torch, stream, by_cupy(cupy, cupy.cuda.ExternalStream(acl.native(stream))))
    acl.aclrtDestroyStream(stream)
    theirs = cupy.cuda.Stream(non_blocking=True)
    stream = acl.adopt(theirs.ptr)
    copies_after_kernels(acl, torch, stream, by_cupy(cupy, theirs))
    acl.aclrtDestroyStream(stream)
    return print(f"cupy, a stream of ours and one of its own: {ROUNDS} rounds each")


def main():
    try:
        import torch
    except ImportError as why:
        return print(f"ok: skipped: {why}")
    if not torch.cuda.is_available():
        return print("ok: skipped: PyTorch sees no GPU")
    torch.cuda.init()
    acl = Acl(sys.argv[1] if len(sys.argv) > 1 else "libascendcl.so")
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    with_torch(acl, torch)
    with_cupy(acl, torch)
    acl.aclrtResetDevice(0)
    acl.aclFinalize()
    return print("ok: work of two libraries in one stream")


if __name__ == "__main__":
    main()
