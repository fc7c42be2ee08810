"""acl.rt.memcpy, memcpy_async, memset and memset_async: which bytes go where, who waits, and what is refused."""

import ctypes
import mmap

import pytest

import acl
from kit import (
    BUFFERED,
    COMPLETE,
    D2D,
    D2H,
    DEFAULT,
    H2D,
    H2H,
    INNER,
    INTER,
    INVALID_HANDLE,
    INVALID_PARAM,
    NO_CONTEXT,
    NOT_READY,
    NOT_SUPPORTED,
    PARAM_INVALID,
    PINNED,
    POISON,
    STREAM_CONTEXT,
    Call,
    Gate,
    Memory,
    address,
    aligned,
    ok,
    pattern,
    refused,
    settle,
)

SIZE = 64 * 1024
HOMES = ("device", "pinned", "plain")
# The homes of destination and source that each kind is for.
ENDS = {H2D: ("device", "pinned"), D2H: ("pinned", "device"), D2D: ("device", "device"), INNER: ("device", "device")}


class Scene:
    """Memory of every home, that a refused call leaves as it is."""

    def __init__(self):
        self.data = {home: pattern(4096, seed) for seed, home in enumerate(HOMES)}
        self.memory = {home: Memory(home, 4096, data) for home, data in self.data.items()}
        self.device, self.pinned, self.plain = (self.memory[home].addr for home in HOMES)
        gone = Memory("device", 4096)
        self.freed = gone.addr
        gone.free()

    def is_unchanged(self):
        return all(memory.read() == self.data[home] for home, memory in self.memory.items())


@pytest.fixture
def scene(device):
    scene = Scene()
    yield scene
    assert scene.is_unchanged(), "a refused call changed memory"


@pytest.mark.parametrize("dst", HOMES)
@pytest.mark.parametrize("src", HOMES)
def test_memcpy_copies_between_any_two_places(device, dst, src):
    for size in (1, 63, 64, 4096, SIZE):
        data = pattern(size, size)
        to, source = Memory(dst, SIZE), Memory(src, SIZE, data)
        ok(acl.rt.memcpy(to.addr, SIZE, source.addr, size, DEFAULT))
        assert to.read(size) == data
        assert to.read(at=size) == bytes([POISON]) * (SIZE - size)


# proves: N1
@pytest.mark.parametrize("kind", [H2H, H2D, D2H, D2D, DEFAULT, 7, -1, 99])
def test_memcpy_ignores_the_kind(device, kind):
    for dst, src in (("device", "pinned"), ("plain", "device"), ("plain", "pinned"), ("device", "device")):
        to, source = Memory(dst, 100), Memory(src, 100, pattern(100))
        ok(acl.rt.memcpy(to.addr, 100, source.addr, 100, kind))
        assert to.read() == pattern(100)


def test_memcpy_takes_the_memory_of_python_objects(device):
    there = Memory("device", 64)
    for source in (b"0123456789", bytearray(b"abcdefghij"), memoryview(b"..........")):
        ok(acl.rt.memcpy(there.addr + 3, 61, acl.util.bytes_to_ptr(source), 10, H2D))
        assert there.read(10, 3) == bytes(source)
        back = bytearray(10)
        ok(acl.rt.memcpy(acl.util.bytes_to_ptr(back), 10, there.addr + 3, 10, D2H))
        assert back == source


# proves: N2 N4
def test_memcpy_and_memset_are_not_put_behind_any_stream(stream):
    there, back = Memory("device", SIZE), Memory("pinned", SIZE)
    source = Memory("pinned", SIZE, pattern(SIZE))
    with Gate(stream), Gate(0):
        ok(acl.rt.memcpy_async(there.addr, SIZE, source.addr, SIZE, H2D, stream))
        ok(Call(acl.rt.memset, there.addr, SIZE, 9, SIZE).returned())
        ok(Call(acl.rt.memcpy, back.addr, SIZE, there.addr, SIZE, D2H).returned())
        assert back.read() == b"\x09" * SIZE, "the copy of the stream has not run"
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.synchronize_stream(0))
    assert there.read() == pattern(SIZE), "the stream's copy came last"


# proves: R24 R25 N5 N12 X3
@pytest.mark.parametrize("kind", [H2D, D2H, D2D, INNER])
@pytest.mark.parametrize("says", ["kind", "DEFAULT"])
def test_memcpy_async_of_acl_memory_returns_before_it_runs(stream, kind, says):
    dst, src = ENDS[kind]
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    with Gate(stream) as gate:
        asked = kind if says == "kind" else DEFAULT
        ok(Call(acl.rt.memcpy_async, to.addr, SIZE, source.addr, SIZE, asked, stream).returned())
        settle()
        assert to.is_poisoned()
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
    assert ok(acl.rt.stream_query(stream)) == COMPLETE
    assert to.read() == pattern(SIZE)


# proves: N5 X3
@pytest.mark.parametrize("kind", [H2D, D2H])
@pytest.mark.parametrize("says", ["kind", "DEFAULT"])
def test_memcpy_async_of_other_host_memory_returns_when_it_is_done(stream, kind, says):
    dst, src = ("device", "plain") if kind == H2D else ("plain", "device")
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    with Gate(stream) as gate:
        asked = kind if says == "kind" else DEFAULT
        call = Call(acl.rt.memcpy_async, to.addr, SIZE, source.addr, SIZE, asked, stream).blocked()
        assert to.is_poisoned()
        gate.open()
        ok(call.join())
        assert to.read() == pattern(SIZE)


# proves: X3
def test_memcpy_async_of_memory_registered_as_page_locked_returns_before_it_runs(stream):
    to, source = Memory("device", SIZE), Memory("plain", SIZE, pattern(SIZE))
    ok(acl.rt.host_register_v2(source.addr, SIZE, PINNED))
    with Gate(stream):
        ok(Call(acl.rt.memcpy_async, to.addr, SIZE, source.addr, SIZE, H2D, stream).returned())
        assert to.is_poisoned()
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.host_unregister(source.addr))
    assert to.read() == pattern(SIZE)


def test_a_buffered_copy_has_taken_its_data_when_it_returns(stream):
    for home in ("pinned", "plain"):
        to, source = Memory("device", SIZE), Memory(home, SIZE, pattern(SIZE))
        with Gate(stream):
            ok(Call(acl.rt.memcpy_async, to.addr, SIZE, source.addr, SIZE, BUFFERED, stream).returned())
            source.fill(0)
            assert to.is_poisoned()
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == pattern(SIZE)


def test_memcpy_async_takes_any_alignment(stream):
    there, source = Memory("device", 4096), Memory("pinned", 4096, pattern(4096))
    for at, start, size in ((1, 3, 1000), (63, 65, 7), (4000, 1, 96)):
        there.fill(POISON)
        ok(acl.rt.memcpy_async(there.addr + at, 4096 - at, source.addr + start, size, H2D, stream))
        ok(acl.rt.synchronize_stream(stream))
        assert there.read(size, at) == pattern(4096)[start : start + size]


# proves: N9 X1
def test_copies_of_a_stream_run_in_their_order(stream):
    for queue in (stream, 0):
        a, b, c = (Memory("device", 4096) for _ in range(3))
        source, back = Memory("pinned", 4096, pattern(4096)), Memory("pinned", 4096)
        ok(acl.rt.memcpy_async(a.addr, 4096, source.addr, 4096, H2D, queue))
        ok(acl.rt.memcpy_async(b.addr, 4096, a.addr, 4096, D2D, queue))
        ok(acl.rt.memset_async(a.addr, 4096, 0, 4096, queue))
        ok(acl.rt.memcpy_async(c.addr, 4096, b.addr, 4096, D2D, queue))
        ok(acl.rt.memset_async(c.addr, 4096, 5, 10, queue))
        ok(acl.rt.memcpy_async(back.addr, 4096, c.addr, 4096, D2H, queue))
        ok(acl.rt.synchronize_stream(queue))
        assert back.read() == b"\x05" * 10 + pattern(4096)[10:]
        assert a.read() == bytes(4096)


def test_source_and_destination_may_overlap(stream):
    for shift in (1, 100):
        for to, start in ((shift, 0), (0, shift)):
            there = Memory("device", 4096, pattern(4096))
            size = 4096 - shift
            ok(acl.rt.memcpy_async(there.addr + to, size, there.addr + start, size, D2D, stream))
            ok(acl.rt.synchronize_stream(stream))
            want = bytearray(pattern(4096))
            want[to : to + size] = pattern(4096)[start : start + size]
            assert there.read() == bytes(want)


def test_nothing_to_copy_is_success(scene, stream):
    for dest_max in (0, 10):
        ok(acl.rt.memcpy(scene.device, dest_max, scene.plain, 0, H2D))
        ok(acl.rt.memcpy_async(scene.device, dest_max, scene.plain, 0, H2D, stream))
        ok(acl.rt.memset(scene.device, dest_max, 1, 0))
        ok(acl.rt.memset_async(scene.device, dest_max, 1, 0, stream))
    ok(acl.rt.synchronize_stream(stream))


# proves: X10
def test_more_than_dest_max_is_refused(scene, stream):
    for dst, src, kind in (
        (scene.device, scene.pinned, H2D),
        (scene.plain, scene.device, D2H),
        (scene.device, scene.device + 512, D2D),
    ):
        words = ("count is 512", "511", f"dst {address(dst)}", f"src {address(src)}")
        refused(PARAM_INVALID, acl.rt.memcpy, dst, 511, src, 512, kind, naming=words)
        refused(PARAM_INVALID, acl.rt.memcpy_async, dst, 511, src, 512, kind, stream, naming=words)
    words = ("65", "64", address(scene.device))
    refused(PARAM_INVALID, acl.rt.memset, scene.device, 64, 0, 65, naming=words)
    refused(PARAM_INVALID, acl.rt.memset_async, scene.device, 64, 0, 65, stream, naming=words)


def test_null_is_refused_whatever_the_size(scene, stream):
    for count in (0, 64):
        for dst, src, name in ((0, scene.pinned, "dst"), (scene.device, 0, "src")):
            refused(INVALID_PARAM, acl.rt.memcpy, dst, 64, src, count, H2D, naming=(name,))
            refused(INVALID_PARAM, acl.rt.memcpy_async, dst, 64, src, count, H2D, stream, naming=(name,))
        refused(INVALID_PARAM, acl.rt.memset, 0, 64, 1, count)
        refused(INVALID_PARAM, acl.rt.memset_async, 0, 64, 1, count, stream)


# Where a range of 512 bytes is bad. An allocation of 4096 bytes on a device has 32 to spare.
BAD_RANGES = {
    "leaves device memory": lambda scene: scene.device + 4096 + 32 - 511,
    "begins before device memory": lambda scene: scene.device - 1,
    "leaves page-locked memory": lambda scene: scene.pinned + 4096 - 511,
    "freed": lambda scene: scene.freed,
    "not mapped": lambda scene: 0x10,
    "no address at all": lambda scene: 0xDEADBEEFDEADBEEF,
    "wraps around": lambda scene: 2**64 - 100,
}


@pytest.mark.parametrize("where", BAD_RANGES)
def test_a_range_that_leaves_its_memory_is_refused(scene, stream, where):
    bad = BAD_RANGES[where](scene)
    for good in (scene.device, scene.pinned, scene.plain):
        words = (f"dst {address(bad)}", f"src {address(good)}")
        refused(PARAM_INVALID, acl.rt.memcpy, bad, 512, good, 512, H2D, naming=words)
        words = (f"dst {address(good)}", f"src {address(bad)}")
        refused(PARAM_INVALID, acl.rt.memcpy, good, 512, bad, 512, H2D, naming=words)
    # What is nowhere counts as host memory.
    for to, source in ((bad, scene.device), (scene.device, bad)):
        words = (f"dst {address(to)}", f"src {address(source)}")
        refused(PARAM_INVALID, acl.rt.memcpy_async, to, 512, source, 512, DEFAULT, stream, naming=words)
    refused(PARAM_INVALID, acl.rt.memset, bad, 512, 1, 512, naming=(address(bad),))
    refused(PARAM_INVALID, acl.rt.memset_async, bad, 512, 1, 512, stream, naming=(address(bad),))


def test_a_count_that_no_memory_has_is_refused(scene, stream):
    most = 2**64 - 1
    for dst, src in ((scene.device, scene.pinned), (scene.plain, scene.device), (scene.device, scene.plain)):
        for count in (most, most - dst, 2**63):
            refused(PARAM_INVALID, acl.rt.memcpy, dst, most, src, count, H2D)
            refused(PARAM_INVALID, acl.rt.memcpy_async, dst, most, src, count, DEFAULT, stream)
            refused(PARAM_INVALID, acl.rt.memset_async, dst, most, 0, count, stream)


def test_the_message_names_pointer_and_allocation(scene, stream):
    inside = scene.device + 4000
    words = (
        f"dst {address(inside)} is offset 4000 of device 0 allocation {address(scene.device)} of 4128 bytes",
        f"src {address(scene.pinned)} is page-locked host allocation {address(scene.pinned)} of 4096 bytes",
        "128 bytes fit",
    )
    refused(PARAM_INVALID, acl.rt.memcpy, inside, 512, scene.pinned, 512, H2D, naming=words)
    refused(PARAM_INVALID, acl.rt.memcpy_async, inside, 512, scene.pinned, 512, H2D, stream, naming=words)


def test_memory_that_cannot_be_written_is_refused(scene, stream):
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ) as read_only:
        addr = acl.util.bytes_to_ptr(read_only)
        there = Memory("device", 4096)
        ok(acl.rt.memcpy(there.addr, 4096, addr, 4096, H2D))
        assert there.read() == bytes(4096)
        refused(PARAM_INVALID, acl.rt.memcpy, addr, 4096, scene.device, 512, D2H, naming=(address(addr),))
        refused(PARAM_INVALID, acl.rt.memcpy_async, addr, 512, scene.device, 512, D2H, stream)
        refused(PARAM_INVALID, acl.rt.memset, addr, 512, 1, 512)


# proves: N6
def test_asynchronous_copies_inside_the_host_are_refused(scene, stream):
    for dst, src in ((scene.pinned, scene.plain), (scene.plain, scene.pinned), (scene.device, scene.pinned)):
        refused(NOT_SUPPORTED, acl.rt.memcpy_async, dst, 64, src, 64, H2H, stream, naming=("HOST_TO_HOST",))
        if dst != scene.device:
            refused(NOT_SUPPORTED, acl.rt.memcpy_async, dst, 64, src, 64, DEFAULT, stream, naming=("both ends",))


@pytest.mark.parametrize("kind", [8, -1, 99, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**32 + 1, 2**40, -(2**200)])
def test_what_is_no_kind_is_refused(scene, stream, kind):
    words = (f"kind is {kind}",)
    ends = scene.device, 64, scene.pinned, 64
    refused(INVALID_PARAM, acl.rt.memcpy_async, *ends, kind, stream, naming=words)
    refused(INVALID_PARAM, acl.rt.memcpy_async_with_condition, *ends, kind, stream, naming=words)
    rows = scene.device, 8, scene.pinned, 8, 8, 8
    # A rectangle's kinds are fewer, and so its message names what it takes.
    refused(INVALID_PARAM, acl.rt.memcpy2d, *rows, kind)
    refused(INVALID_PARAM, acl.rt.memcpy2d_async, *rows, kind, stream)
    refused(INVALID_PARAM, acl.rt.reduce_async, scene.device, scene.device + 64, 64, kind, 0, stream, 0, naming=words)
    refused(INVALID_PARAM, acl.rt.memcpy_async_with_desc, scene.device, kind, stream, naming=words)
    assert refused(INVALID_PARAM, acl.rt.get_memcpy_desc_size, kind, naming=words) == 0
    ok(acl.rt.memcpy(scene.device, 64, scene.pinned, 0, kind))  # which ignores it (N1)


def test_a_kind_that_contradicts_the_addresses_is_refused(scene, stream):
    names = {H2D: "HOST_TO_DEVICE", D2H: "DEVICE_TO_HOST", D2D: "DEVICE_TO_DEVICE"}
    ends = {
        H2D: (scene.device, scene.pinned),
        D2H: (scene.plain, scene.device),
        D2D: (scene.device, scene.device + 1024),
    }
    for kind in (H2D, D2H, D2D, BUFFERED, INNER, INTER):
        for fits, (dst, src) in ends.items():
            if kind == fits or (kind, fits) in ((BUFFERED, H2D), (INNER, D2D)):
                continue
            # What is inside one device is not for the kind between two, whose fitting kind is another one again.
            words = (address(dst), address(src), *([names[fits]] if kind != INTER else []))
            refused(PARAM_INVALID, acl.rt.memcpy_async, dst, 64, src, 64, kind, stream, naming=words)


def test_a_handle_that_is_no_stream_is_refused(scene):
    gone = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_stream(gone))
    event = ok(acl.rt.create_event())
    for bad in (gone, event, 12345, scene.device, 2**64 - 1):
        words = (address(bad),)
        args = (scene.device, 64, scene.pinned, 64, H2D, bad)
        refused(INVALID_HANDLE, acl.rt.memcpy_async, *args, naming=words)
        refused(INVALID_HANDLE, acl.rt.memset_async, scene.device, 64, 0, 64, bad, naming=words)
    ok(acl.rt.destroy_event(event))


# proves: N10
def test_a_stream_of_another_context_is_refused(scene, stream):
    here = ok(acl.rt.get_context())
    other = ok(acl.rt.create_context(0))
    args = (scene.device, 64, scene.pinned, 64, H2D, stream)
    refused(STREAM_CONTEXT, acl.rt.memcpy_async, *args)
    refused(STREAM_CONTEXT, acl.rt.memset_async, scene.device, 64, 0, 64, stream)
    ok(acl.rt.destroy_context(other))
    ok(acl.rt.set_context(here))


# proves: N11
def test_a_thread_without_a_context_copies_nothing(scene):
    codes = []

    def body(_):
        codes.append(acl.rt.memcpy(scene.device, 64, scene.plain, 64, H2D))
        codes.append(acl.rt.memcpy_async(scene.device, 64, scene.plain, 64, H2D, 0))
        codes.append(acl.rt.memset(scene.device, 64, 0, 64))
        codes.append(acl.rt.memset_async(scene.device, 64, 0, 64, 0))

    ok(acl.util.stop_thread(ok(acl.util.start_thread(body, []))))
    assert codes == [NO_CONTEXT] * 4


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("value", [0, 1, 255, 0x177, -1, 2**31 - 1, -(2**31)])
def test_memset_fills_with_the_lowest_byte(stream, home, value):
    for fill in (acl.rt.memset, lambda *args: acl.rt.memset_async(*args, stream)):
        memory = Memory(home, 4096)
        ok(fill(memory.addr + 5, 4091, value, 3000))
        ok(acl.rt.synchronize_stream(stream))
        content = memory.read()
        assert content[5:3005] == bytes([value & 0xFF]) * 3000
        assert content[:5] + content[3005:] == bytes([POISON]) * (5 + 4096 - 3005)


def test_memset_async_of_device_memory_returns_before_it_runs(stream):
    there = Memory("device", SIZE)
    with Gate(stream):
        ok(Call(acl.rt.memset_async, there.addr, SIZE, 7, SIZE, stream).returned())
        settle()
        assert there.is_poisoned()
    ok(acl.rt.synchronize_stream(stream))
    assert there.read() == b"\x07" * SIZE


def test_the_spare_bytes_behind_device_memory_may_be_used(device):
    there, source = Memory("device", 100), Memory("pinned", 160, pattern(160))
    # 100 bytes become 128, and 32 more.
    ok(acl.rt.memcpy(there.addr, 160, source.addr, 160, H2D))
    back = ctypes.create_string_buffer(160)
    ok(acl.rt.memcpy(ctypes.addressof(back), 160, there.addr, 160, D2H))
    assert back.raw == pattern(160)
    refused(PARAM_INVALID, acl.rt.memset, there.addr, 161, 0, 161)


def test_addresses_in_the_middle_of_python_memory(device):
    start, owner = aligned(300, 64, past=7)
    there = Memory("device", 300, pattern(300))
    ok(acl.rt.memcpy(start, 300, there.addr, 300, D2H))
    at = start - acl.util.bytes_to_ptr(owner)
    assert owner[at : at + 300] == pattern(300)
    assert not any(owner[:at]) and not any(owner[at + 300 :])
