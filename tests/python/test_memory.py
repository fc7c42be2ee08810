"""Memory from Python: of devices, page-locked, and the program's own, registered."""

import numpy
import pytest

import acl
import kit
import sheet
from kit import Call, Gate, Memory, ok, passes, refused

rt = acl.rt

HUGE_FIRST, HUGE_ONLY, NORMAL_ONLY = 0, 1, 2
MAPPED, IOMEMORY, READONLY, PINNED = 0x2, 0x4, 0x8, 0x10000000
PAGE = 4096

DEVICE_FORMS = {
    "malloc": rt.malloc,
    "malloc_align32": rt.malloc_align32,
    "malloc_cached": rt.malloc_cached,
    "malloc_with_cfg": lambda size, policy: rt.malloc_with_cfg(size, policy, {}),
}
HOST_FORMS = {"malloc_host": rt.malloc_host, "malloc_host_with_cfg": lambda size: rt.malloc_host_with_cfg(size, {})}
DEVICE = pytest.mark.parametrize("form", DEVICE_FORMS)
HOST = pytest.mark.parametrize("form", HOST_FORMS)


@DEVICE
@pytest.mark.parametrize("policy", [HUGE_FIRST, HUGE_ONLY, NORMAL_ONLY])
def test_device_memory_is_aligned_and_holds_bytes(device, form, policy):
    for size in (1, 33, 4096, (1 << 20) + 1):
        at = ok(DEVICE_FORMS[form](size, policy))
        assert at % 64 == 0 and at > 0
        content, back = kit.pattern(min(size, 5000)), bytearray(min(size, 5000))
        ok(rt.memcpy(at, size, acl.util.bytes_to_ptr(content), len(content), kit.H2D))
        ok(rt.memcpy(acl.util.bytes_to_ptr(back), len(back), at, len(back), kit.D2H))
        assert bytes(back) == content
        ok(rt.free(at))


def test_malloc_has_32_bytes_to_spare_and_malloc_align32_has_not(device):
    zeros = bytes(128)
    room = {"malloc": 96, "malloc_cached": 96, "malloc_with_cfg": 96, "malloc_align32": 64}
    for form, size in room.items():
        at = ok(DEVICE_FORMS[form](33, HUGE_FIRST))
        ok(rt.memcpy(at, size, acl.util.bytes_to_ptr(zeros), size, kit.H2D))
        refused(107000, rt.memcpy, at, size + 1, acl.util.bytes_to_ptr(zeros), size + 1, kit.H2D)
        ok(rt.free(at))


@DEVICE
def test_device_memory_of_no_bytes_or_too_many_is_refused(device, form):
    assert refused(107000, DEVICE_FORMS[form], 0, HUGE_FIRST, naming=["size is 0"]) == 0
    assert refused(207001, DEVICE_FORMS[form], 1 << 60, HUGE_FIRST, naming=["were asked for"]) == 0
    assert refused(207001, DEVICE_FORMS[form], 2**64 - 1, HUGE_FIRST) == 0


def test_policies(device):
    for policy in (3, 4, 5, 8, -1, 99, 2**31 - 1):
        ok(rt.free(ok(rt.malloc(64, policy))))
    # Cached memory takes the first three and 1 GiB pages.
    for policy in (3, 4, 5, 7, 99):
        assert refused(107000, rt.malloc_cached, 64, policy, naming=[f"policy is {policy}"]) == 0
    # With a configuration, policies of different groups may be combined.
    ok(rt.free(ok(rt.malloc_with_cfg(64, 0x1000 | HUGE_FIRST, {}))))


def test_free_refuses_what_is_not_device_memory(device):
    memory, host = ok(rt.malloc(64, 0)), ok(rt.malloc_host(64))
    refused(100000, rt.free, 0, naming=["NULL"])
    for at in (5, memory + 1, host):
        refused(107000, rt.free, at, naming=[kit.address(at)])
    ok(rt.free(memory))
    refused(107000, rt.free, memory, naming=["freed"])
    ok(rt.free_host(host))


def test_memory_may_be_freed_with_copies_queued(stream):
    device, host, back = Memory("device", 64), Memory("pinned", 64, kit.pattern(64)), Memory("pinned", 64)
    with Gate(stream):
        ok(rt.memcpy_async(device.addr, 64, host.addr, 64, kit.H2D, stream))
        ok(rt.memcpy_async(back.addr, 64, device.addr, 64, kit.D2H, stream))
        host.free()
        assert Call(rt.free, device.addr).returned() == 0
        device.addr = 0
    ok(rt.synchronize_stream(stream))
    assert back.read() == kit.pattern(64)


@HOST
def test_host_memory_is_aligned_page_locked_and_readable(stream, form):
    for size in (1, 1000, 5 << 20):
        at = ok(HOST_FORMS[form](size))
        assert at % 64 == 0 and at > 0
        view = acl.util.ptr_to_numpy(at, (size,), 2)
        view[:] = 7
        assert acl.util.ptr_to_bytes(at, size) == bytes([7]) * size
        del view
        ok(rt.free_host(at))
    # Page-locked: a copy of it does not wait.
    device, at = Memory("device", 64), ok(HOST_FORMS[form](64))
    with Gate(stream):
        assert Call(rt.memcpy_async, device.addr, 64, at, 64, kit.H2D, stream).returned() == 0
    ok(rt.synchronize_stream(stream))
    ok(rt.free_host(at))


@HOST
def test_host_memory_of_no_bytes_is_refused(device, form):
    assert refused(107000, HOST_FORMS[form], 0, naming=["size is 0"]) == 0


def test_free_host_takes_0_and_refuses_what_is_not_host_memory(device):
    memory, host = ok(rt.malloc(64, 0)), ok(rt.malloc_host(64))
    ok(rt.free_host(0))
    for at in (5, memory, host + 1):
        refused(107000, rt.free_host, at, naming=[kit.address(at)])
    ok(rt.free_host(host))
    refused(107000, rt.free_host, host)
    ok(rt.free(memory))


def config(attr, value, count=1):
    return {"attrs": [{"attr": attr, "value": value}], "numAttrs": count}


MODULE, DEVICE_ID, VA_FLAG = 1, 2, 3

# Every documented shape of a configuration that says nothing against the current device.
GOOD = [
    {},
    {"attrs": [], "numAttrs": 0},
    {"attrs": (), "numAttrs": 0},
    config(MODULE, {"moduleId": 33}),
    config(MODULE, {"moduleId": 0}),
    config(MODULE, {"moduleId": 65535}),
    config(MODULE, 33),
    config(DEVICE_ID, {"deviceId": 0}),
    config(DEVICE_ID, {"moduleId": 33, "deviceId": 0, "rsv": [0] * 8}),
    config(0, {"rsv": [0] * 8}),
    config(DEVICE_ID, {"deviceId": numpy.uint32(0)}),
    {"attrs": [{"attr": MODULE, "value": {"moduleId": 33}}, {"attr": DEVICE_ID, "value": {"deviceId": 0}}], "numAttrs": 2},
    # Only the first numAttrs count.
    {"attrs": [{"attr": MODULE, "value": {"moduleId": 33}}, {"attr": DEVICE_ID, "value": {"deviceId": 1}}], "numAttrs": 1},
    config(99, {"rsv": [0] * 8}, count=0),
]


@pytest.mark.parametrize("cfg", GOOD, ids=str)
def test_configurations_in_every_documented_shape(device, cfg):
    at = ok(rt.malloc_with_cfg(64, HUGE_FIRST, cfg))
    ok(rt.free(at))
    at = ok(rt.malloc_host_with_cfg(64, cfg))
    ok(rt.free_host(at))


BAD = [
    (config(DEVICE_ID, {"deviceId": 1}), "device 1, but the current device is 0"),
    (config(DEVICE_ID, 1), "device 1, but the current device is 0"),
    (config(99, {"rsv": [0] * 8}), "attr is 99"),
    (config(MODULE, {"moduleId": 33}, count=2), "cfg['numAttrs'] is 2, but cfg['attrs'] has 1"),
    (config(MODULE, {"moduleId": 33}, count=-1), "cfg['numAttrs'] is -1"),
    (config(MODULE, {"moduleId": 65536}), "cfg['attrs'][0]['value']['moduleId'] is 65536: it must be in 0 to 65535"),
]


@pytest.mark.parametrize("cfg,words", BAD, ids=str)
def test_configurations_that_are_refused(device, cfg, words):
    assert refused(107000, rt.malloc_with_cfg, 64, HUGE_FIRST, cfg, naming=[words]) == 0
    assert refused(107000, rt.malloc_host_with_cfg, 64, cfg, naming=[words]) == 0


def test_va_flag_is_for_host_memory(device):
    cfg = config(VA_FLAG, {"vaFlag": 1})
    ok(rt.free_host(ok(rt.malloc_host_with_cfg(64, cfg))))
    assert refused(207000, rt.malloc_with_cfg, 64, HUGE_FIRST, cfg, naming=["VA_FLAG"]) == 0


class Pages:
    """Pages of a NumPy array."""

    def __init__(self, count):
        self.array = numpy.zeros((count + 1) * PAGE, numpy.uint8)
        start = -self.array.ctypes.data % PAGE
        self.bytes = self.array[start : start + count * PAGE]
        self.addr, self.size = self.bytes.ctypes.data, count * PAGE


def waits(stream, device, addr):
    """Whether a copy from host memory waits until it is done."""
    with Gate(stream):
        call = Call(rt.memcpy_async, device.addr, 64, addr, 64, kit.H2D, stream)
        sleeps = call.sleeps
    assert call.join() == 0
    ok(rt.synchronize_stream(stream))
    return sleeps


def test_registered_numpy_memory_is_mapped_or_page_locked_as_asked(stream):
    device, pages = Memory("device", 64), Pages(1)
    assert waits(stream, device, pages.addr), "memory that acl does not know is pageable"
    # Version 1 and MAPPED give the device an address; the memory stays pageable.
    mapped = ok(rt.host_register(pages.addr, pages.size, 0))
    assert mapped != 0 and ok(rt.host_get_device_pointer(pages.addr, 0)) == mapped
    assert waits(stream, device, pages.addr)
    ok(rt.host_unregister(pages.addr))
    ok(rt.host_register_v2(pages.addr, pages.size, MAPPED))
    assert ok(rt.host_get_device_pointer(pages.addr + 5, 0)) == ok(rt.host_get_device_pointer(pages.addr, 0)) + 5
    assert waits(stream, device, pages.addr)
    ok(rt.host_unregister(pages.addr))
    # PINNED page-locks, and gives no address.
    ok(rt.host_register_v2(pages.addr, pages.size, PINNED))
    assert not waits(stream, device, pages.addr)
    assert refused(107000, rt.host_get_device_pointer, pages.addr, 0, naming=["ACL_HOST_REG_MAPPED"]) == 0
    ok(rt.host_unregister(pages.addr))
    ok(rt.host_register_v2(pages.addr, pages.size, MAPPED | PINNED))
    assert not waits(stream, device, pages.addr)
    assert ok(rt.host_get_device_pointer(pages.addr, 0)) != 0
    ok(rt.host_unregister(pages.addr))
    assert waits(stream, device, pages.addr), "unregistered, it is what it was"


def test_copies_take_the_host_address_of_mapped_memory(stream):
    pages, device = Pages(1), Memory("device", 64, kit.pattern(64))
    mapped = ok(rt.host_register(pages.addr, pages.size, 0))
    for kind in (kit.D2D, kit.D2H):
        arguments = (mapped, 64, device.addr, 64, kind, stream)
        refused(107000, rt.memcpy_async, *arguments, naming=[kit.address(pages.addr), "copies take the host address"])
    ok(rt.memcpy_async(pages.addr, 64, device.addr, 64, kit.D2H, stream))
    assert pages.bytes[:64].tobytes() == kit.pattern(64)
    ok(rt.host_unregister(pages.addr))


def test_registering_refuses_what_it_cannot_use(device):
    pages = Pages(2)
    refused(107008, rt.host_register, pages.addr + 1, PAGE, 0, naming=["multiple of 4096"])
    refused(107008, rt.host_register_v2, pages.addr + 1, PAGE, PINNED, naming=["multiple of 4096"])
    for size_0 in (lambda: rt.host_register(pages.addr, 0, 0), lambda: rt.host_register_v2(pages.addr, 0, PINNED)):
        refused(107000, size_0, naming=["size is 0"])
    for flag in (IOMEMORY, READONLY):
        assert refused(207000, rt.host_register, pages.addr, PAGE, flag) == 0
        refused(207000, rt.host_register_v2, pages.addr, PAGE, flag | MAPPED)
    refused(107000, rt.host_register_v2, pages.addr, PAGE, 0, naming=["flag is 0x0"])
    refused(100000, rt.host_register, 0, PAGE, 0, naming=["NULL"])
    refused(100000, rt.host_register_v2, 0, PAGE, PINNED, naming=["NULL"])
    refused(100000, rt.host_unregister, 0, naming=["NULL"])
    refused(100000, rt.host_get_device_pointer, 0, 0, naming=["NULL"])
    locked = ok(rt.malloc_host(PAGE))
    refused(107000, rt.host_register_v2, locked, PAGE, PINNED, naming=["page-locked already"])
    ok(rt.free_host(locked))


def test_memory_is_registered_once(device):
    pages = Pages(2)
    refused(507911, rt.host_unregister, pages.addr, naming=[kit.address(pages.addr)])
    assert refused(507911, rt.host_get_device_pointer, pages.addr, 0) == 0
    ok(rt.host_register_v2(pages.addr, pages.size, PINNED))
    assert refused(507910, rt.host_register, pages.addr, PAGE, 0) == 0
    refused(507910, rt.host_register_v2, pages.addr + PAGE, PAGE, PINNED)
    refused(107000, rt.host_get_device_pointer, pages.addr, 1, naming=["flag is 1"])
    ok(rt.host_unregister(pages.addr))
    refused(507911, rt.host_unregister, pages.addr)


def test_registering_is_on_newer_products_only():
    passes(
        """
        import acl
        from kit import aligned, ok, refused
        ok(acl.rt.set_device(0))
        addr, owner = aligned(4096)
        refused(207000, acl.rt.host_register, addr, 4096, 0)
        refused(207000, acl.rt.host_register_v2, addr, 4096, 0x10000000)
        """,
        env={"FERRY_SOC": "Ascend310P3"},
    )


def test_every_function_of_the_section_needs_a_context():
    passes("""
        import acl, sheet
        from kit import refused
        for row in sheet.MEMORY:
            if "malloc" in row.name:
                given = [64 if name == "size" else value for name, value in zip(row.names, sheet.harmless(row))]
                assert refused(107002, row.function, *given) == 0
    """)
    assert sum("malloc" in row.name for row in sheet.MEMORY) == 8
