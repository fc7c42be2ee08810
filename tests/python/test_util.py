"""acl.util: addresses of Python's objects and objects of addresses. Nothing copies silently."""

import array
import ctypes
import mmap
import sys

import numpy as np
import pytest

import acl
import kit
from kit import Memory, ok

# NumPy's numbers of its types.
TYPES = {
    0: "bool",
    1: "int8",
    2: "uint8",
    3: "int16",
    4: "uint16",
    5: "int32",
    6: "uint32",
    7: "int64",
    8: "uint64",
    9: "longlong",
    10: "ulonglong",
    11: "float32",
    12: "float64",
    23: "float16",
}

# PROT_NONE.
NOTHING = 0

WARNING = "Warning:The input ndarray is discontiguous. Please use acl.util.numpy_contiguous_to_ptr instead.\n"


def at(address, size):
    """The bytes there, by other means."""
    return ctypes.string_at(address, size)


# Objects whose memory is in one piece, with the bytes in it.
PIECES = {
    "bytes": lambda: b"some bytes",
    "bytearray": lambda: bytearray(b"some bytes"),
    "memoryview": lambda: memoryview(b"some bytes"),
    "memoryview, a part": lambda: memoryview(bytearray(b"some bytes"))[2:7],
    "array": lambda: array.array("i", range(10)),
    "ndarray": lambda: np.arange(10, dtype=np.float32),
    "ndarray, two dimensions": lambda: np.arange(12).reshape(3, 4),
    "ndarray, rows of one": lambda: np.arange(12).reshape(3, 4)[1:],
    "ndarray, float16": lambda: np.arange(10, dtype=np.float16),
    "ctypes": lambda: (ctypes.c_int * 4)(1, 2, 3, 4),
    "mmap": lambda: mmap.mmap(-1, 4096),
}


@pytest.mark.parametrize("name", PIECES)
def test_bytes_to_ptr_is_where_the_bytes_are(name):
    data = PIECES[name]()
    address = acl.util.bytes_to_ptr(data)
    assert type(address) is int
    content = bytes(memoryview(data).cast("B")) if not isinstance(data, np.ndarray) else data.tobytes()
    assert at(address, len(content)) == content
    assert acl.util.bytes_to_ptr(data) == address, "it was copied"


def test_bytes_to_ptr_of_what_can_change_shows_the_change():
    data = bytearray(64)
    address = acl.util.bytes_to_ptr(data)
    data[5] = 99
    assert at(address, 64) == bytes(data)
    # The object is not held: it can be resized afterwards.
    data += b"more"


def test_bytes_to_ptr_does_not_hold_the_object():
    data = bytearray(64)
    before = sys.getrefcount(data)
    acl.util.bytes_to_ptr(data)
    assert sys.getrefcount(data) == before


def test_bytes_to_ptr_and_copies(device):
    source, target = b"s" * 4096, bytearray(4096)
    memory = Memory("device", 4096)
    ok(acl.rt.memcpy(memory.addr, 4096, acl.util.bytes_to_ptr(source), 4096, kit.H2D))
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(target), 4096, memory.addr, 4096, kit.D2H))
    assert target == source


@pytest.mark.parametrize("given", ["text", 5, None, [1, 2], (b"a",), 1.5, object()])
def test_bytes_to_ptr_of_what_has_no_bytes_raises(given):
    with pytest.raises(TypeError, match="argument 'data': '.*' object is not bytes"):
        acl.util.bytes_to_ptr(given)


@pytest.mark.parametrize(
    "given",
    [
        memoryview(bytes(10))[::2],
        np.arange(10)[::2],
        np.arange(12).reshape(3, 4)[:, :2],
        np.arange(12).reshape(3, 4).T,
        np.arange(4)[::-1],
    ],
    ids=["memoryview", "every other", "columns", "turned", "backwards"],
)
def test_bytes_to_ptr_of_what_is_not_in_one_piece_raises(given):
    with pytest.raises((BufferError, ValueError)):
        acl.util.bytes_to_ptr(given)


def test_ptr_to_bytes_copies():
    data = bytearray(b"some bytes")
    taken = acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), 4)
    assert type(taken) is bytes and taken == b"some"
    data[0] = 0
    assert taken == b"some"


def test_ptr_to_bytes_of_nothing():
    data = b"x"
    assert acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), 0) == b""


def test_ptr_to_bytes_of_much():
    data = np.random.default_rng(1).integers(0, 256, 10 << 20, dtype=np.uint8)
    assert acl.util.ptr_to_bytes(data.ctypes.data, data.nbytes) == data.tobytes()


@pytest.mark.parametrize("home", ["pinned", "registered"])
def test_ptr_to_bytes_of_host_memory_of_acl(device, home):
    if home == "pinned":
        memory = Memory("pinned", 4096, b"p" * 4096)
        assert acl.util.ptr_to_bytes(memory.addr, 4096) == b"p" * 4096
        return
    address, owner = kit.aligned(4096)
    ok(acl.rt.host_register_v2(address, 4096, kit.PINNED))
    assert acl.util.ptr_to_bytes(address, 4096) == bytes(4096)
    ok(acl.rt.host_unregister(address))
    del owner


@pytest.mark.parametrize("call", ["ptr_to_bytes", "ptr_to_numpy"])
def test_what_the_host_cannot_reach_raises(device, call):
    memory = Memory("device", 4096)
    host = Memory("pinned", 4096)
    # Not a page that was given back: some thread may have it by now.
    page = mmap.mmap(-1, 4096)
    nothing = acl.util.bytes_to_ptr(page)
    protect(nothing, 4096, NOTHING)
    cases = {
        0: "NULL|ptr",
        8: "ptr",
        nothing: "ptr",
        memory.addr: "acl.rt.memcpy",
        memory.addr + 100: "acl.rt.memcpy",
        2**64 - 4096: "ptr",
    }
    for address, words in cases.items():
        with pytest.raises(ValueError, match=words):
            look(call, address, 64)
    assert bytes(look(call, host.addr, 64)) == bytes([kit.POISON]) * 64


def look(call, address, size):
    return acl.util.ptr_to_bytes(address, size) if call == "ptr_to_bytes" else acl.util.ptr_to_numpy(address, (size,), 2)


@pytest.mark.parametrize("call", ["ptr_to_bytes", "ptr_to_numpy"])
def test_a_range_that_ends_where_nothing_is_raises(call):
    pages = mmap.mmap(-1, 8192)
    start = acl.util.bytes_to_ptr(pages)
    protect(start + 4096, 4096, NOTHING)
    assert bytes(look(call, start, 4096)) == bytes(4096)
    with pytest.raises(ValueError, match="ptr"):
        look(call, start, 4097)
    with pytest.raises(ValueError, match="ptr"):
        look(call, start + 4095, 2)


def protect(address, size, access):
    """Changes what may be done with pages."""
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access) == 0


def test_freed_device_memory_raises(device):
    memory = Memory("device", 4096)
    address = memory.addr
    memory.free()
    with pytest.raises(ValueError):
        acl.util.ptr_to_bytes(address, 64)


def test_memory_of_acl_is_what_is_allocated(device):
    first, second = ok(acl.rt.malloc_host(4096)), ok(acl.rt.malloc_host(4096))
    assert len(acl.util.ptr_to_bytes(first, 4096)) == 4096
    with pytest.raises(ValueError, match="leave their block"):
        acl.util.ptr_to_bytes(first, 1 << 16)
    with pytest.raises(ValueError, match="leave their block"):
        acl.util.ptr_to_numpy(first, (1 << 16,), 2)
    ok(acl.rt.free_host(first))
    ok(acl.rt.free_host(second))
    with pytest.raises(ValueError, match="nothing is allocated"):
        acl.util.ptr_to_bytes(first, 1)
    with pytest.raises(ValueError, match="nothing is allocated"):
        acl.util.ptr_to_numpy(first, (1,), 2)


def test_ptr_to_numpy_needs_memory_that_can_be_written():
    page = mmap.mmap(-1, 4096)
    address = acl.util.bytes_to_ptr(page)
    protect(address, 4096, mmap.PROT_READ)
    assert acl.util.ptr_to_bytes(address, 4096) == bytes(4096)
    with pytest.raises(ValueError, match="ptr"):
        acl.util.ptr_to_numpy(address, (64,), 2)


def test_numbers_that_cannot_be_raise():
    for args in [(-1, 4), (2**64, 4), (8, -1), (8, 2**64), (8, 2**63)]:
        with pytest.raises(ValueError):
            acl.util.ptr_to_bytes(*args)
    data = b"x"
    for size in (1 << 62, 2**63 - 1, 2**64 - 1):
        with pytest.raises((ValueError, MemoryError)):
            acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), size)
    for args, name in [((b"", 1), "ptr"), ((1.0, 1), "ptr"), ((1, "1"), "size"), ((None, 1), "ptr")]:
        with pytest.raises(TypeError, match=f"argument '{name}'"):
            acl.util.ptr_to_bytes(*args)


def test_on_a_board_the_host_reaches_device_memory():
    # Where host and device memory are one.
    kit.passes(
        """
        import acl, kit
        from kit import ok
        ok(acl.rt.set_device(0))
        device = ok(acl.rt.malloc(4096, 0))
        ok(acl.rt.memset(device, 4096, 5, 4096))
        assert acl.util.ptr_to_bytes(device, 4096) == bytes([5]) * 4096
        view = acl.util.ptr_to_numpy(device, (1024,), 5)
        view[:] = 0x01020304
        back = bytearray(4096)
        ok(acl.rt.memcpy(acl.util.bytes_to_ptr(back), 4096, device, 4096, kit.D2H))
        assert back == bytes([4, 3, 2, 1]) * 1024
        """,
        env={"FERRY_SOC": "Ascend310B1", "FERRY_FORM": "rc"},
    )


@pytest.mark.parametrize("number", TYPES)
def test_ptr_to_numpy_is_a_view_both_ways(number):
    dtype = np.dtype(TYPES[number])
    owner = bytearray(24 * dtype.itemsize)
    address = acl.util.bytes_to_ptr(owner)
    view = acl.util.ptr_to_numpy(address, (2, 3, 4), number)
    assert (view.shape, view.dtype, view.ctypes.data) == ((2, 3, 4), dtype, address)
    assert view.flags.writeable and view.flags.c_contiguous
    view[:] = np.arange(24).reshape(2, 3, 4).astype(dtype)
    assert bytes(owner) == np.arange(24).astype(dtype).tobytes()
    owner[:] = bytes(len(owner))
    assert not view.any()


def test_ptr_to_numpy_of_longlong_is_numpys_own():
    owner = bytearray(16)
    for number, char in (9, "q"), (10, "Q"):
        assert acl.util.ptr_to_numpy(acl.util.bytes_to_ptr(owner), (2,), number).dtype.char == char


def test_ptr_to_numpy_of_other_shapes():
    owner = bytearray(b"abcdefgh")
    address = acl.util.bytes_to_ptr(owner)
    assert acl.util.ptr_to_numpy(address, (), 2)[()] == ord("a")
    assert acl.util.ptr_to_numpy(address, (0,), 2).shape == (0,)
    assert acl.util.ptr_to_numpy(address, (4, 0, 2), 5).size == 0
    assert acl.util.ptr_to_numpy(address, (np.int64(8),), 2).tobytes() == b"abcdefgh"


def test_ptr_to_numpy_lives_without_its_pieces():
    # The view does not hold the memory, nor anything that could go before it.
    memory = mmap.mmap(-1, 4096)
    view = acl.util.ptr_to_numpy(acl.util.bytes_to_ptr(memory), (4096,), 2)
    part = view[10:20]
    del view
    part[:] = 3
    assert memory[10:20] == bytes([3]) * 10


@pytest.mark.parametrize("number", [-1, 13, 14, 17, 22, 24, 99, 2**31, -(2**40)])
def test_ptr_to_numpy_of_types_that_are_not_listed_raises(number):
    owner = bytearray(64)
    with pytest.raises(ValueError, match="npy_type"):
        acl.util.ptr_to_numpy(acl.util.bytes_to_ptr(owner), (1,), number)


def test_ptr_to_numpy_of_shapes_that_cannot_be_raises():
    owner = bytearray(64)
    address = acl.util.bytes_to_ptr(owner)
    for shape in [(-1,), (4, -4), (2**64,), (2**63,), (2**32, 2**32), (2**62, 4), (1,) * 65]:
        with pytest.raises(ValueError):
            acl.util.ptr_to_numpy(address, shape, 12)
    for shape in [[4], 4, None, "4", np.array([4])]:
        with pytest.raises(TypeError, match="argument 'shape'"):
            acl.util.ptr_to_numpy(address, shape, 2)
    for shape in [("4",), (1.5,), (None,)]:
        with pytest.raises(TypeError, match=r"shape\[0\]"):
            acl.util.ptr_to_numpy(address, shape, 2)
    with pytest.raises(TypeError, match="argument 'npy_type'"):
        acl.util.ptr_to_numpy(address, (4,), np.uint8)


def test_numpy_to_ptr(capsys):
    for given in [np.arange(6), np.arange(6).reshape(2, 3), np.array(5), np.zeros(4, dtype="M8[s]"), np.zeros((0, 3))]:
        assert acl.util.numpy_to_ptr(given) == given.ctypes.data
    fixed = np.arange(6)
    fixed.flags.writeable = False
    assert acl.util.numpy_to_ptr(fixed) == fixed.ctypes.data
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("given", [np.arange(6)[::2], np.arange(6).reshape(2, 3).T], ids=["every other", "turned"])
def test_numpy_to_ptr_warns_of_what_is_not_row_by_row(given, capsys):
    assert acl.util.numpy_to_ptr(given) == given.ctypes.data
    assert capsys.readouterr() == (WARNING, "")


def test_numpy_contiguous_to_ptr_copies_only_what_it_must():
    given = np.arange(6).reshape(2, 3)
    address, out = acl.util.numpy_contiguous_to_ptr(given)
    assert out is given and address == given.ctypes.data

    turned = given.T
    address, out = acl.util.numpy_contiguous_to_ptr(turned)
    assert out is not turned and out.flags.c_contiguous and address == out.ctypes.data
    assert (out == turned).all() and at(address, out.nbytes) == turned.tobytes()


@pytest.mark.parametrize("call", ["numpy_to_ptr", "numpy_contiguous_to_ptr"])
def test_what_is_no_array_raises(call):
    for given in [b"bytes", [1, 2], None, 5, memoryview(b"x"), np.int32(5)]:
        with pytest.raises(TypeError, match="argument 'ndarray'"):
            getattr(acl.util, call)(given)


def test_without_numpy_all_else_works():
    kit.passes(
        """
        import sys
        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "numpy":
                    raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
        sys.meta_path.insert(0, Blocked())
        import array
        import acl, kit
        from kit import ok
        assert "numpy" not in sys.modules
        ok(acl.rt.set_device(0))
        data = bytearray(b"x" * 64)
        at = acl.util.bytes_to_ptr(data)
        assert acl.util.ptr_to_bytes(at, 64) == data
        memory = kit.Memory("device", 64, data)
        assert memory.read() == data
        stream = ok(acl.rt.create_stream())
        attrs = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
        for numbers in list, lambda items: array.array("Q", items):
            args = [numbers([number]) for number in (memory.addr, 64, at, 64)]
            ok(acl.rt.memcpy_batch_async(*args, 1, attrs, numbers([0]) if numbers is list else [0], 1, stream))
        ok(acl.util.stop_thread(ok(acl.util.start_thread(len, []))))
        for call in (
            lambda: acl.util.numpy_to_ptr(data),
            lambda: acl.util.numpy_contiguous_to_ptr(data),
            lambda: acl.util.ptr_to_numpy(at, (64,), 2),
        ):
            try:
                call()
                raise AssertionError("it did not raise")
            except ModuleNotFoundError as error:
                assert error.name == "numpy"
        assert "numpy" not in sys.modules
        """
    )
