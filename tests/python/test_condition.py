"""acl.rt.memcpy_async_with_condition, by the letter of its page."""

import inspect

import numpy
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
    UNALIGNED,
    Call,
    Gate,
    Memory,
    address,
    aligned,
    ok,
    passes,
    pattern,
    refused,
    settle,
)

SIZE = 64 * 1024
copy = acl.rt.memcpy_async_with_condition

# SoC and form of the products that the page lists, and of the one that came later.
CARDS = {
    "A3": "Ascend910_9391",
    "A2": "Ascend910B1",
    "TRN": "Ascend910A",
    "INF": "Ascend310P3",
    "200I": "Ascend310B1",
    "950": "Ascend950PR_9599",
}


# proves: R21 R26
def test_the_arguments_are_six_in_the_documented_order(stream):
    assert list(inspect.signature(copy).parameters) == ["dst", "dest_max", "src", "count", "kind", "stream"]
    there, source = Memory("device", 256), Memory("pinned", 256, pattern(256))
    # Every number is another one, so that no two can change places.
    ok(copy(there.addr + 64, 128, source.addr, 100, 1, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert there.read(100, 64) == pattern(100)
    assert there.read(64) == there.read(92, 164)[:64] == b"\xa5" * 64
    for count in (0, 5, 7):
        with pytest.raises(TypeError):
            copy(*range(count))


# proves: R26
def test_every_argument_is_an_int(stream):
    there, source = Memory("device", 64), Memory("pinned", 64)
    good = [there.addr, 64, source.addr, 64, H2D, stream]
    for at, name in enumerate(("dst", "dest_max", "src", "count", "kind", "stream")):
        for wrong in (1.0, "1", None, b"1", [1]):
            args = list(good)
            args[at] = wrong
            with pytest.raises(TypeError, match=f"'{name}'"):
                copy(*args)
    numbers = [numpy.uint64(number) for number in good[:4]] + [numpy.int32(H2D), stream]
    ok(copy(*numbers))
    ok(acl.rt.synchronize_stream(stream))


# proves: R21 R28
def test_the_result_is_one_int(stream):
    there, source = Memory("device", 64), Memory("pinned", 64)
    assert type(copy(there.addr, 64, source.addr, 64, H2D, stream)) is int
    assert copy(there.addr, 64, source.addr, 64, H2D, stream) == 0
    failed = copy(there.addr, 64, source.addr, 65, H2D, stream)
    assert type(failed) is int and failed != 0
    ok(acl.rt.synchronize_stream(stream))


# proves: R27
def test_the_kinds_have_their_documented_numbers(stream):
    a, b = Memory("device", SIZE), Memory("device", SIZE)
    source, back = Memory("pinned", SIZE, pattern(SIZE)), Memory("pinned", SIZE)
    refused(NOT_SUPPORTED, copy, back.addr, SIZE, source.addr, SIZE, 0, stream)
    ok(copy(a.addr, SIZE, source.addr, SIZE, 1, stream))
    ok(copy(b.addr, SIZE, a.addr, SIZE, 3, stream))
    ok(copy(back.addr, SIZE, b.addr, SIZE, 2, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert a.read() == b.read() == back.read() == pattern(SIZE)
    # 4 is whatever the addresses are.
    source.write(pattern(SIZE, 5))
    ok(copy(a.addr, SIZE, source.addr, SIZE, 4, stream))
    ok(copy(b.addr, SIZE, a.addr, SIZE, 4, stream))
    ok(copy(back.addr, SIZE, b.addr, SIZE, 4, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert a.read() == b.read() == back.read() == pattern(SIZE, 5)


# proves: R27
@pytest.mark.parametrize("kind", [BUFFERED, INNER, INTER, 8, -1, 2**31 - 1])
def test_other_kinds_are_refused(stream, kind):
    there, source = Memory("device", 64), Memory("device", 64)
    refused(INVALID_PARAM, copy, there.addr, 64, source.addr, 64, kind, stream, naming=("kind",))
    assert there.is_poisoned()


# proves: R22 R24 R25
@pytest.mark.parametrize("kind", [H2D, D2H, D2D])
@pytest.mark.parametrize("says", ["kind", "DEFAULT"])
def test_memory_of_acl_is_copied_after_the_call(stream, kind, says):
    dst, src = {H2D: ("device", "pinned"), D2H: ("pinned", "device"), D2D: ("device", "device")}[kind]
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    with Gate(stream) as gate:
        asked = kind if says == "kind" else DEFAULT
        ok(Call(copy, to.addr, SIZE, source.addr, SIZE, asked, stream).returned())
        settle()
        assert to.is_poisoned(), "success means that the copy was handed over, not that it was done"
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
    assert ok(acl.rt.stream_query(stream)) == COMPLETE
    assert to.read() == pattern(SIZE)


def array_at_64(size):
    """A NumPy array of bytes that begins at a multiple of 64, by slicing."""
    whole = numpy.zeros(size + 64, numpy.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


class Foreign:
    """Host memory that acl did not allocate, of each origin, and its 64-byte aligned address."""

    def __init__(self, origin):
        self.registered = origin == "registered"
        if origin == "bytes":
            # Bytes begin anywhere; a slice of a memoryview begins where it must.
            self.owner = pattern(SIZE + 64, 3)
            start = -acl.util.bytes_to_ptr(self.owner) % 64
            self.view = memoryview(self.owner)[start : start + SIZE]
        elif origin == "bytearray":
            addr, self.owner = aligned(SIZE, 64)
            start = addr - acl.util.bytes_to_ptr(self.owner)
            self.view = memoryview(self.owner)[start : start + SIZE]
        elif origin == "numpy":
            self.view = array_at_64(SIZE)
        else:
            addr, self.owner = aligned(SIZE)
            start = addr - acl.util.bytes_to_ptr(self.owner)
            self.view = memoryview(self.owner)[start : start + SIZE]
            ok(acl.rt.host_register_v2(addr, SIZE, PINNED))
        self.addr = acl.util.bytes_to_ptr(self.view)
        assert self.addr % 64 == 0

    def close(self):
        if self.registered:
            ok(acl.rt.host_unregister(self.addr))


ORIGINS = ("bytes", "bytearray", "numpy", "registered")


# proves: R23
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("kind", [H2D, DEFAULT])
def test_a_source_that_acl_did_not_allocate_makes_the_call_wait(stream, origin, kind):
    source, there = Foreign(origin), Memory("device", SIZE)
    if origin != "bytes":
        memoryview(source.view)[:] = pattern(SIZE, 3)
    with Gate(stream) as gate:
        call = Call(copy, there.addr, SIZE, source.addr, SIZE, kind, stream).blocked()
        assert there.is_poisoned()
        gate.open()
        ok(call.join())
        assert there.read() == bytes(source.view) and any(source.view)
    source.close()


# proves: R23
@pytest.mark.parametrize("origin", ORIGINS[1:])
@pytest.mark.parametrize("kind", [D2H, DEFAULT])
def test_a_destination_that_acl_did_not_allocate_makes_the_call_wait(stream, origin, kind):
    to, there = Foreign(origin), Memory("device", SIZE, pattern(SIZE, 4))
    with Gate(stream) as gate:
        call = Call(copy, to.addr, SIZE, there.addr, SIZE, kind, stream).blocked()
        assert not any(to.view)
        gate.open()
        ok(call.join())
        assert bytes(to.view) == pattern(SIZE, 4), "it is all there without a synchronise"
    to.close()


# proves: R23 R24
def test_what_the_document_asks_and_the_c_function_does_not(stream):
    """Memory registered as page-locked waits here, and does not in memcpy_async, which goes by page-locked."""
    source, there = Foreign("registered"), Memory("device", SIZE)
    with Gate(stream) as gate:
        ok(Call(acl.rt.memcpy_async, there.addr, SIZE, source.addr, SIZE, H2D, stream).returned())
        waits = Call(copy, there.addr, SIZE, source.addr, SIZE, H2D, stream).blocked()
        gate.open()
        ok(waits.join())
    source.close()


# proves: R23
def test_another_thread_runs_while_the_call_waits(stream):
    """The call lets go of the interpreter: the gate is opened by Python code."""
    source, there = Foreign("numpy"), Memory("device", SIZE)
    with Gate(stream) as gate:
        opener = Call(lambda: copy(there.addr, SIZE, source.addr, SIZE, H2D, stream)).blocked()
        assert sum(range(1000)) == 499500
        gate.open()
        ok(opener.join())


# proves: R29
@pytest.mark.parametrize("past", [1, 2, 8, 16, 32, 63])
def test_both_addresses_are_multiples_of_64(stream, past):
    there, locked = Memory("device", 4096), Memory("pinned", 4096)
    plain = Memory("plain", 4096)
    for dst, src, kind in (
        (there, locked, H2D),
        (locked, there, D2H),
        (there, there, D2D),
        (there, plain, H2D),
        (plain, there, D2H),
        (there, locked, DEFAULT),
    ):
        for name, to, source in (("dst", past, 1024), ("src", 1024, past), ("dst", past, past)):
            to, source = dst.addr + to, src.addr + source
            words = (f"{name} {address(to if name == 'dst' else source)} is {past} bytes past", "64")
            refused(UNALIGNED, copy, to, 512, source, 512, kind, stream, naming=words)
    ok(acl.rt.synchronize_stream(stream))
    assert there.is_poisoned() and locked.is_poisoned() and plain.is_poisoned()


# proves: R29
def test_any_multiple_of_64_is_good_and_any_count(stream):
    there, source = Memory("device", 4096), Memory("pinned", 4096, pattern(4096))
    for at, start, count in ((64, 0, 1), (0, 64, 63), (192, 320, 65), (1024, 128, 1000), (4032, 4032, 64)):
        there.fill(0xA5)
        ok(copy(there.addr + at, 4096 - at, source.addr + start, count, H2D, stream))
        ok(acl.rt.synchronize_stream(stream))
        assert there.read(count, at) == pattern(4096)[start : start + count]
        assert there.read(at + count) == b"\xa5" * at + pattern(4096)[start : start + count]


# proves: R29
def test_what_acl_allocates_is_aligned(stream):
    for size in (1, 7, 64, 100, 5000):
        for policy in (0, 1, 2):
            there = ok(acl.rt.malloc(size, policy))
            host = ok(acl.rt.malloc_host(size))
            assert there % 64 == host % 64 == 0
            ok(copy(there, size, host, size, H2D, stream))
            ok(copy(host, size, there, size, D2H, stream))
            ok(acl.rt.synchronize_stream(stream))
            ok(acl.rt.free(there))
            ok(acl.rt.free_host(host))


# proves: R29
def test_a_bytes_object_as_it_comes_is_refused_and_a_slice_of_it_is_not(stream):
    there, data = Memory("device", 64), pattern(256)
    start = acl.util.bytes_to_ptr(data)
    misaligned = start if start % 64 else start + 32
    refused(UNALIGNED, copy, there.addr, 64, misaligned, 64, H2D, stream)
    assert there.is_poisoned()
    at = -start % 64
    ok(copy(there.addr, 64, start + at, 64, H2D, stream))
    assert there.read() == data[at : at + 64]


def test_bad_arguments_are_refused_in_the_order_of_the_checks(stream):
    there, source = Memory("device", 4096), Memory("pinned", 4096)
    d, s = there.addr, source.addr
    gone = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_stream(gone))
    for code, *args in (
        (INVALID_PARAM, 0, 64, s, 64, H2D, stream),
        (INVALID_PARAM, d, 64, 0, 64, H2D, stream),
        (INVALID_PARAM, 0, 0, s, 0, H2D, gone),
        (INVALID_HANDLE, d, 64, s, 64, H2D, gone),
        (INVALID_HANDLE, d + 1, 1, s, 64, H2H, gone),
        (INVALID_PARAM, d + 1, 1, s, 64, 99, stream),
        (NOT_SUPPORTED, d + 1, 1, s, 64, H2H, stream),
        (PARAM_INVALID, d, 63, s, 64, H2D, stream),
        (UNALIGNED, d + 1, 64, 0xDEADBEEFDEADBEEF, 64, H2D, stream),
        (UNALIGNED, d, 64, 0xDEADBEEFDEADBEEF, 64, H2D, stream),
        (PARAM_INVALID, d, 64, 0xDEADBEEFDEADBEC0, 64, H2D, stream),
        (PARAM_INVALID, d, 8192, s, 8192, H2D, stream),
        (PARAM_INVALID, d, 64, s, 64, D2H, stream),
        (PARAM_INVALID, d, 64, s, 64, D2D, stream),
    ):
        refused(code, copy, *args)
    ok(copy(d, 0, s, 0, H2D, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert there.is_poisoned()


def test_a_thread_without_a_context_copies_nothing(device):
    there, codes = Memory("device", 64), []
    thread = ok(acl.util.start_thread(lambda args: codes.append(copy(*args)), [there.addr, 64, there.addr, 64, D2D, 0]))
    ok(acl.util.stop_thread(thread))
    assert codes == [NO_CONTEXT]


CARD = """
    import acl
    from kit import *

    ok(acl.rt.set_device(0))
    assert acl.get_soc_name() == {soc!r}
    stream = ok(acl.rt.create_stream())
    copy = acl.rt.memcpy_async_with_condition
    there, plain = Memory("device", 4096), Memory("plain", 4096, pattern(4096))
    source, back = Memory("pinned", 4096, pattern(4096, 1)), Memory("pinned", 4096)
    for to, start in ((back, source), (back, plain), (plain, source), (there, source), (back, there)):
        before = to.read()
        refused(NOT_SUPPORTED, copy, to.addr, 4096, start.addr, 4096, H2H, stream, naming=("HOST_TO_HOST",))
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == before
    refused(UNALIGNED, copy, there.addr + 1, 64, source.addr, 64, H2D, stream)
    refused(UNALIGNED, copy, there.addr, 64, source.addr + 1, 64, H2D, stream)
    ok(copy(there.addr, 4096, source.addr, 4096, H2D, stream))
    ok(copy(there.addr + 1024, 1024, there.addr, 1024, D2D, stream))
    ok(copy(back.addr, 4096, there.addr, 4096, D2H, stream))
    ok(acl.rt.synchronize_stream(stream))
    want = pattern(4096, 1)
    assert back.read() == want[:1024] + want[:1024] + want[2048:]
    with Gate(stream) as gate:
        waits = Call(copy, there.addr, 4096, plain.addr, 4096, DEFAULT, stream).blocked()
        gate.open()
        ok(waits.join())
    assert there.read() == pattern(4096)
    print("done")
"""


# proves: R30 R31 R33 R34
@pytest.mark.parametrize("product", CARDS)
def test_on_a_card_host_to_host_is_refused_and_the_rest_works(product):
    soc = CARDS[product]
    assert passes(CARD.format(soc=soc), env={"FERRY_SOC": soc, "FERRY_FORM": "ep"}) == "done\n"


# One memory for host and device: every kind is a copy inside it, whatever it says about where the ends are.
BOARD = """
    import acl
    from kit import *

    ok(acl.rt.set_device(0))
    assert acl.get_soc_name() == {soc!r}
    assert ok(acl.rt.get_run_mode()) == 0
    stream = ok(acl.rt.create_stream())
    copy = acl.rt.memcpy_async_with_condition
    homes = ("device", "pinned", "plain")
    for kind in (H2H, H2D, D2H, D2D, DEFAULT):
        for dst in homes:
            for src in homes:
                to, source = Memory(dst, 4096), Memory(src, 4096, pattern(4096, kind))
                with Gate(stream) as gate:
                    call = Call(copy, to.addr, 4096, source.addr, 4096, kind, stream)
                    if "plain" in (dst, src):
                        call.blocked()
                    else:
                        ok(call.returned())
                        settle()
                    assert to.is_poisoned(), (kind, dst, src)
                    gate.open()
                    ok(call.join())
                ok(acl.rt.synchronize_stream(stream))
                assert to.read() == pattern(4096, kind), (kind, dst, src)
    refused(UNALIGNED, copy, to.addr + 1, 64, source.addr, 64, H2H, stream)
    refused(UNALIGNED, copy, to.addr, 64, source.addr + 1, 64, D2D, stream)
    refused(INVALID_PARAM, copy, to.addr, 64, source.addr, 64, INNER, stream)
    print("done")
"""


# proves: R32 R34
@pytest.mark.parametrize("soc, form", [("Ascend310B1", "rc"), ("Ascend310P3", "ctrlcpu")])
def test_on_a_board_every_kind_is_a_copy_inside_the_device(soc, form):
    assert passes(BOARD.format(soc=soc), env={"FERRY_SOC": soc, "FERRY_FORM": form}) == "done\n"
