"""Virtual memory from Python: addresses and physical memory apart."""

import pytest

import acl
import kit
import sheet
from kit import Call, Gate, Memory, ok, passes, refused

rt = acl.rt

GRANULE = 2 << 20
PROP = sheet.HARMLESS["properties"]


@pytest.fixture
def reserved(device):
    """Addresses of two granules."""
    at = ok(rt.reserve_mem_address(2 * GRANULE, 0, 0, 0))
    yield at
    rt.release_mem_address(at)


@pytest.fixture
def handle(device):
    handle = ok(rt.malloc_physical(GRANULE, PROP, 0))
    yield handle
    rt.free_physical(handle)


def write(at, content):
    return rt.memcpy(at, len(content), acl.util.bytes_to_ptr(content), len(content), kit.H2D)


def read(at, size):
    content = bytearray(size)
    ok(rt.memcpy(acl.util.bytes_to_ptr(content), size, at, size, kit.D2H))
    return bytes(content)


def test_mapped_memory_is_device_memory(reserved, handle, stream):
    content = kit.pattern(1000)
    assert write(reserved, content) == 107000, "there is nothing behind the addresses yet"
    ok(rt.map_mem(reserved, GRANULE, 0, handle, 0))
    ok(write(reserved + 5, content))
    assert read(reserved + 5, 1000) == content
    # Asynchronous copies take it too.
    back = Memory("pinned", 1000)
    ok(rt.memcpy_async(back.addr, 1000, reserved + 5, 1000, kit.D2H, stream))
    ok(rt.synchronize_stream(stream))
    assert back.read() == content
    ok(rt.unmap_mem(reserved))
    assert write(reserved, content) == 107000
    # The memory is the handle's: mapped elsewhere, it has kept what was written.
    ok(rt.map_mem(reserved + GRANULE, GRANULE, 0, handle, 0))
    assert read(reserved + GRANULE + 5, 1000) == content
    ok(rt.unmap_mem(reserved + GRANULE))


def test_a_copy_may_span_pieces_that_are_mapped_side_by_side(reserved, handle):
    other = ok(rt.malloc_physical(GRANULE, PROP, 0))
    ok(rt.map_mem(reserved, GRANULE, 0, handle, 0))
    edge, content = reserved + GRANULE - 100, kit.pattern(200)
    assert write(edge, content) == 107000, "the second piece is a hole"
    ok(rt.map_mem(reserved + GRANULE, GRANULE, 0, other, 0))
    ok(write(edge, content))
    assert read(edge, 200) == content
    ok(rt.unmap_mem(reserved))
    ok(rt.unmap_mem(reserved + GRANULE))
    ok(rt.free_physical(other))


def test_memory_may_be_unmapped_and_freed_with_copies_queued(reserved, handle, stream):
    ok(rt.map_mem(reserved, GRANULE, 0, handle, 0))
    ok(write(reserved, kit.pattern(64)))
    back = Memory("pinned", 64)
    with Gate(stream):
        ok(rt.memcpy_async(back.addr, 64, reserved, 64, kit.D2H, stream))
        assert Call(rt.unmap_mem, reserved).returned() == 0
        assert Call(rt.free_physical, handle).returned() == 0
    ok(rt.synchronize_stream(stream))
    assert back.read() == kit.pattern(64)


@pytest.mark.parametrize("order", ["unmap free release", "unmap release free"])
def test_it_may_be_undone_in_either_order(device, order):
    at, handle = ok(rt.reserve_mem_address(GRANULE, 0, 0, 0)), ok(rt.malloc_physical(GRANULE, PROP, 0))
    ok(rt.map_mem(at, GRANULE, 0, handle, 0))
    undo = {
        "unmap": lambda: rt.unmap_mem(at),
        "free": lambda: rt.free_physical(handle),
        "release": lambda: rt.release_mem_address(at),
    }
    for step in order.split():
        ok(undo[step]())
    for step in undo.values():
        assert step() in (107000, 107017)


def test_memory_that_is_freed_while_mapped_goes_when_it_is_unmapped():
    passes(
        """
        import acl, sheet
        from kit import ok
        ok(acl.rt.set_device(0))
        granule, prop = 2 << 20, sheet.HARMLESS["properties"]
        free = lambda: ok(acl.rt.get_mem_info(1))[0]
        before, at = free(), ok(acl.rt.reserve_mem_address(granule, 0, 0, 0))
        assert free() == before, "addresses are no memory"
        handle = ok(acl.rt.malloc_physical(granule, prop, 0))
        assert free() == before - granule
        ok(acl.rt.map_mem(at, granule, 0, handle, 0))
        ok(acl.rt.free_physical(handle))
        assert free() == before - granule
        ok(acl.rt.memset(at, granule, 1, granule))
        ok(acl.rt.unmap_mem(at))
        assert free() == before
        ok(acl.rt.release_mem_address(at))
        """,
        env={"FERRY_DEVICE_MEMORY": "64M"},
    )


def test_reserve_refuses_what_is_not_0(device):
    assert refused(107000, rt.reserve_mem_address, 0, 0, 0, 0, naming=["size is 0"]) == 0
    assert refused(107000, rt.reserve_mem_address, GRANULE, 4096, 0, 0, naming=["alignment is 4096"]) == 0
    assert refused(107000, rt.reserve_mem_address, GRANULE, 0, 0, 9, naming=["flags is 9"]) == 0
    ok(rt.release_mem_address(ok(rt.reserve_mem_address(GRANULE, 0, 0, 1))))


def test_an_expected_address_is_taken_or_not_but_never_twice(reserved):
    other = ok(rt.reserve_mem_address(GRANULE, 0, reserved, 0))
    assert not reserved <= other < reserved + 2 * GRANULE
    ok(rt.release_mem_address(other))


PROPERTIES = [
    ({"handleType": 2}, 207000, "handleType is 2"),
    ({"allocationType": 1}, 107000, "allocationType is 1"),
    ({"memAttr": 99}, 107000, "memAttr is 99"),
    ({"memAttr": -1}, 107000, "memAttr is -1"),
    ({"location": {"id": 9, "type": 1}}, 107001, "device 9"),
        ({"location": {"id": 4095, "type": 4}}, 107000, "location.id"),
        ({"location": {"id": 0, "type": 3}}, 107000, "location.type"),
    ({"location": {"id": 0, "type": 7}}, 107000, "location.type is 7"),
    ({"reserve": 1}, 107000, "reserve is 1"),
]


@pytest.mark.parametrize("change,code,words", PROPERTIES, ids=str)
def test_properties_that_are_refused(device, change, code, words):
    assert refused(code, rt.malloc_physical, GRANULE, {**PROP, **change}, 0, naming=[words]) == 0


@pytest.mark.parametrize("attribute", [0, 1, 3, 4, 5, 12, 13, 15, 16])
def test_properties_that_are_taken(device, attribute):
    ok(rt.free_physical(ok(rt.malloc_physical(GRANULE, {**PROP, "memAttr": attribute}, 0))))
    # The reserved member may be left out.
    without = {key: value for key, value in PROP.items() if key != "reserve"}
    ok(rt.free_physical(ok(rt.malloc_physical(GRANULE, {**without, "memAttr": attribute}, 0))))


def test_physical_memory_may_be_of_another_device(device):
    handle = ok(rt.malloc_physical(GRANULE, {**PROP, "location": {"id": 1, "type": 1}}, 0))
    ok(rt.free_physical(handle))


def test_malloc_physical_refuses_sizes_and_flags(device):
    for size in (0, 5, GRANULE + 1):
        assert refused(107000, rt.malloc_physical, size, PROP, 0, naming=[f"size is {size}", str(GRANULE)]) == 0
    assert refused(107000, rt.malloc_physical, GRANULE, PROP, 1, naming=["flags is 1"]) == 0
    assert refused(207001, rt.malloc_physical, 1 << 60, PROP, 0) == 0


def test_map_refuses_what_it_cannot_use(reserved, handle):
    refused(107000, rt.map_mem, reserved, GRANULE // 2, 0, handle, 0, naming=[f"size is {GRANULE // 2}"])
    refused(107000, rt.map_mem, reserved + 1, GRANULE, 0, handle, 0, naming=["granularity"])
    refused(107000, rt.map_mem, reserved, GRANULE, 5, handle, 0, naming=["offset is 5"])
    refused(107000, rt.map_mem, reserved, GRANULE, 0, handle, 5, naming=["flags is 5"])
    refused(107017, rt.map_mem, reserved, GRANULE, 0, 12345, 0, naming=["0x3039"])
    refused(100000, rt.map_mem, 0, GRANULE, 0, handle, 0, naming=["NULL"])
    refused(100000, rt.map_mem, reserved, GRANULE, 0, 0, 0, naming=["NULL"])
    refused(107000, rt.map_mem, reserved + 2 * GRANULE, GRANULE, 0, handle, 0)
    ok(rt.map_mem(reserved, GRANULE, 0, handle, 0))
    refused(107000, rt.map_mem, reserved, GRANULE, 0, handle, 0, naming=[kit.address(reserved)])
    refused(107000, rt.release_mem_address, reserved, naming=["unmap first"])
    refused(107000, rt.free, reserved)
    ok(rt.unmap_mem(reserved))


def test_undoing_refuses_what_was_not_done(reserved):
    for call in (rt.unmap_mem, rt.release_mem_address, rt.free_physical):
        refused(100000, call, 0, naming=["NULL"])
    refused(107000, rt.unmap_mem, reserved, naming=[kit.address(reserved)])
    refused(107000, rt.release_mem_address, reserved + GRANULE)
    refused(107017, rt.free_physical, 12345, naming=["0x3039"])


def test_there_is_none_of_it_on_the_board():
    passes(
        """
        import acl, sheet
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        prop = sheet.HARMLESS["properties"]
        refused(207000, acl.rt.reserve_mem_address, 2 << 20, 0, 0, 0)
        refused(207000, acl.rt.malloc_physical, 2 << 20, prop, 0)
        refused(207000, acl.rt.map_mem, 1, 2 << 20, 0, 1, 0)
        for call in (acl.rt.unmap_mem, acl.rt.free_physical, acl.rt.release_mem_address):
            refused(207000, call, 1)
        """,
        env={"FERRY_SOC": "Ascend310B1", "FERRY_FORM": "rc"},
    )
