"""acl.rt.memcpy2d and memcpy2d_async: matrices, row by row."""

import numpy
import pytest

import acl
from kit import (
    BUFFERED,
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
    POISON,
    STREAM_CONTEXT,
    Call,
    Gate,
    Memory,
    address,
    ok,
    passes,
    pattern,
    refused,
    settle,
)

MOST_ROWS = 5 * 1024 * 1024
WIDEST = 5_000_000

# Distance of the rows in destination and source, bytes of a row, rows.
SHAPES = [(64, 64, 64, 8), (128, 64, 48, 8), (48, 200, 48, 5), (1000, 999, 1, 40), (70, 64, 64, 1), (33, 65, 31, 100)]


def both(stream):
    """The two functions, called alike; what the asynchronous one does is done when it returns."""

    def wait(*args):
        ret = acl.rt.memcpy2d_async(*args, stream)
        ok(acl.rt.synchronize_stream(stream))
        return ret

    return acl.rt.memcpy2d, wait


def by_hand(dst, dpitch, src, spitch, width, height):
    """What is in the destination afterwards."""
    dst = bytearray(dst)
    for row in range(height):
        dst[row * dpitch : row * dpitch + width] = src[row * spitch : row * spitch + width]
    return bytes(dst)


# proves: R1 R2 R11 R12 R13 R17 R18
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind, dst, src", [
    (H2D, "device", "pinned"),
    (H2D, "device", "plain"),
    (D2H, "pinned", "device"),
    (D2H, "plain", "device"),
    (D2D, "device", "device"),
])
def test_rows_go_where_their_pitch_says(stream, kind, dst, src, shape):
    dpitch, spitch, width, height = shape
    # Inside a device only the asynchronous form copies.
    for copy in both(stream) if kind != D2D else both(stream)[1:]:
        data = pattern(height * spitch, height)
        to, source = Memory(dst, height * dpitch), Memory(src, height * spitch, data)
        ok(copy(to.addr, dpitch, source.addr, spitch, width, height, kind))
        poison = bytes([POISON]) * (height * dpitch)
        assert to.read() == by_hand(poison, dpitch, data, spitch, width, height)


def test_a_part_of_a_numpy_matrix(stream):
    matrix = numpy.arange(40 * 30, dtype=numpy.int32).reshape(40, 30)
    part = matrix[10:20, 5:25]
    for copy in both(stream):
        there, back = Memory("device", 10 * 128), numpy.zeros((10, 20), numpy.int32)
        ok(copy(there.addr, 128, part.ctypes.data, matrix.strides[0], 80, 10, H2D))
        ok(copy(back.ctypes.data, 80, there.addr, 128, 80, 10, D2H))
        assert (back == part).all()


# proves: R3 R4 R6 R8 R16 N14
@pytest.mark.parametrize("kind, dst, src", [
    (H2D, "device", "pinned"), (D2H, "pinned", "device"), (D2D, "device", "device"),
])
def test_acl_memory_is_copied_after_the_call(stream, kind, dst, src):
    to, source = Memory(dst, 4096), Memory(src, 4096, pattern(4096))
    with Gate(stream) as gate:
        ok(Call(acl.rt.memcpy2d_async, to.addr, 64, source.addr, 64, 64, 64, kind, stream).returned())
        settle()
        assert to.is_poisoned()
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
    assert to.read() == pattern(4096)


# proves: R6 R7
@pytest.mark.parametrize("kind, dst, src", [(H2D, "device", "plain"), (D2H, "plain", "device")])
def test_pageable_memory_makes_the_call_wait(stream, kind, dst, src):
    to, source = Memory(dst, 4096), Memory(src, 4096, pattern(4096))
    with Gate(stream) as gate:
        call = Call(acl.rt.memcpy2d_async, to.addr, 64, source.addr, 64, 64, 64, kind, stream).blocked()
        assert to.is_poisoned()
        gate.open()
        ok(call.join())
        assert to.read() == pattern(4096)


def test_the_synchronous_form_is_not_put_behind_any_stream(stream):
    there, source = Memory("device", 4096), Memory("pinned", 4096, pattern(4096))
    with Gate(stream), Gate(0):
        ok(Call(acl.rt.memcpy2d, there.addr, 64, source.addr, 64, 64, 64, H2D).returned())
        assert there.read() == pattern(4096)
    ok(acl.rt.synchronize_stream(0))


class Scene:
    """A good copy of 8 rows of 48 bytes, to be bent."""

    NAMES = ("dst", "dpitch", "src", "spitch", "width", "height", "kind")

    def __init__(self):
        self.there, self.host = Memory("device", 1024), Memory("pinned", 1024, pattern(1024))

    def bent(self, **changes):
        good = (self.there.addr, 64, self.host.addr, 128, 48, 8, H2D)
        return [changes.get(name, value) for name, value in zip(self.NAMES, good)]


@pytest.fixture
def scene(device):
    scene = Scene()
    yield scene
    assert scene.there.is_poisoned() and scene.host.read() == pattern(1024), "a refused call changed memory"


# proves: R9 R15 N15
@pytest.mark.parametrize("kind", [H2H, DEFAULT, BUFFERED, INNER, INTER, -1, 8, 2**31 - 1])
def test_other_kinds_are_refused(scene, stream, kind):
    refused(INVALID_PARAM, acl.rt.memcpy2d, *scene.bent(kind=kind), naming=("kind",))
    refused(INVALID_PARAM, acl.rt.memcpy2d_async, *scene.bent(kind=kind), stream, naming=("kind",))


def test_a_kind_that_contradicts_the_addresses_is_refused(scene, stream):
    there, host = scene.there.addr, scene.host.addr
    for changes in ({"kind": D2H}, {"dst": host + 512, "spitch": 64}, {"src": there + 512, "spitch": 64, "kind": D2H}):
        words = ("contradicts", address(scene.bent(**changes)[0]), address(scene.bent(**changes)[2]))
        refused(PARAM_INVALID, acl.rt.memcpy2d, *scene.bent(**changes), naming=words)
        refused(PARAM_INVALID, acl.rt.memcpy2d_async, *scene.bent(**changes), stream, naming=words)
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *scene.bent(kind=D2D), stream, naming=("contradicts",))
    # The synchronous form does not take this kind at all.
    refused(INVALID_PARAM, acl.rt.memcpy2d, *scene.bent(kind=D2D), naming=("DEVICE_TO_DEVICE",))
    refused(INVALID_PARAM, acl.rt.memcpy2d, *scene.bent(src=there + 512, spitch=64, kind=D2D))


# proves: R12 R13 N13
@pytest.mark.parametrize("changes", [
    {"dpitch": 47},
    {"spitch": 47},
    {"dpitch": 0},
    {"spitch": 0, "height": 1},
    {"width": 65},
    {"width": 129},
], ids=str)
def test_rows_wider_than_their_distance_are_refused(scene, stream, changes):
    refused(PARAM_INVALID, acl.rt.memcpy2d, *scene.bent(**changes), naming=("width", "pitch"))
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *scene.bent(**changes), stream, naming=("width", "pitch"))


@pytest.mark.parametrize("changes", [
    {"height": 9},
    {"height": 2**64 - 1},
    {"dpitch": 2**63, "height": 3},
    {"spitch": 2**63, "height": 3},
    {"dpitch": 2**64 - 1, "spitch": 2**64 - 1},
    {"width": 2**64 - 1, "dpitch": 2**64 - 1, "spitch": 2**64 - 1, "height": 1},
    {"dst": 0xDEADBEEFDEADBEEF},
    {"src": 0xDEADBEEFDEADBEEF},
    {"src": 0x10},
    {"src": 2**64 - 100},
], ids=str)
def test_rows_that_leave_their_memory_are_refused(scene, stream, changes):
    refused(PARAM_INVALID, acl.rt.memcpy2d, *scene.bent(**changes))
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *scene.bent(**changes), stream)


def test_the_last_row_may_end_where_the_memory_does(scene, stream):
    """By a byte: 8 rows 64 apart reach 496 bytes far, and 1056 there are."""
    for copy in both(stream):
        refused(PARAM_INVALID, copy, *scene.bent(dst=scene.there.addr + 1056 - 495))
        ok(copy(*scene.bent(dst=scene.there.addr + 1056 - 496)))
        scene.there.fill(POISON)
        refused(PARAM_INVALID, copy, *scene.bent(src=scene.host.addr + 1024 - 943))
        ok(copy(*scene.bent(src=scene.host.addr + 1024 - 944)))
        scene.there.fill(POISON)


def test_null_is_refused(scene, stream):
    for changes in ({"dst": 0}, {"src": 0}, {"dst": 0, "height": 0}, {"src": 0, "width": 0}):
        refused(INVALID_PARAM, acl.rt.memcpy2d, *scene.bent(**changes))
        refused(INVALID_PARAM, acl.rt.memcpy2d_async, *scene.bent(**changes), stream)


def test_no_rows_and_empty_rows_are_success(scene, stream):
    for changes in ({"height": 0}, {"width": 0}, {"width": 0, "dpitch": 0, "spitch": 0}, {"width": 0, "height": 0}):
        ok(acl.rt.memcpy2d(*scene.bent(**changes)))
        ok(acl.rt.memcpy2d_async(*scene.bent(**changes), stream))
    ok(acl.rt.synchronize_stream(stream))


# proves: R14
def test_the_most_rows(scene, stream):
    """As many as that are taken and copied, one more is not; the synchronous form has no such limit."""
    there = Memory("device", MOST_ROWS + 1)
    source = Memory("pinned", MOST_ROWS + 1)
    source.write(b"\x01" * (MOST_ROWS + 1))
    args = there.addr, 1, source.addr, 1, 1
    words = (str(MOST_ROWS + 1), str(MOST_ROWS), "height")
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *args, MOST_ROWS + 1, H2D, stream, naming=words)
    ok(acl.rt.synchronize_stream(stream))
    assert there.is_poisoned()
    ok(acl.rt.memcpy2d_async(*args, MOST_ROWS, H2D, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert there.read() == b"\x01" * MOST_ROWS + bytes([POISON])
    ok(acl.rt.memcpy2d(*args, MOST_ROWS + 1, H2D))
    assert there.read() == b"\x01" * (MOST_ROWS + 1)
    # Also where there would be nothing to copy.
    empty = scene.bent(width=0, height=MOST_ROWS + 1)
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *empty, stream)
    ok(acl.rt.memcpy2d(*empty))


# proves: N13
def test_the_widest_rows(scene, stream):
    there, source = Memory("device", WIDEST + 1), Memory("pinned", WIDEST + 1)
    source.write(b"\x02" * (WIDEST + 1))
    args = there.addr, WIDEST + 1, source.addr, WIDEST + 1
    words = (str(WIDEST + 1), str(WIDEST), "width")
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *args, WIDEST + 1, 1, H2D, stream, naming=words)
    ok(acl.rt.synchronize_stream(stream))
    assert there.is_poisoned()
    ok(acl.rt.memcpy2d_async(*args, WIDEST, 1, H2D, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert there.read() == b"\x02" * WIDEST + bytes([POISON])
    ok(acl.rt.memcpy2d(*args, WIDEST + 1, 1, H2D))
    assert there.read() == b"\x02" * (WIDEST + 1)
    refused(PARAM_INVALID, acl.rt.memcpy2d_async, *args, WIDEST + 1, 0, H2D, stream)


# proves: R16
def test_bad_streams_are_refused(scene, stream):
    gone = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_stream(gone))
    for bad in (gone, 12345, scene.there.addr):
        refused(INVALID_HANDLE, acl.rt.memcpy2d_async, *scene.bent(), bad, naming=(address(bad),))
    here, other = ok(acl.rt.get_context()), ok(acl.rt.create_context(0))
    refused(STREAM_CONTEXT, acl.rt.memcpy2d_async, *scene.bent(), stream)
    ok(acl.rt.destroy_context(other))
    ok(acl.rt.set_context(here))


def test_a_thread_without_a_context_copies_nothing(scene):
    codes = []

    def body(args):
        codes.extend((acl.rt.memcpy2d(*args), acl.rt.memcpy2d_async(*args, 0)))

    ok(acl.util.stop_thread(ok(acl.util.start_thread(body, scene.bent()))))
    assert codes == [NO_CONTEXT] * 2


PROGRAM = """
    import sys
    import acl
    from kit import *

    ok(acl.rt.set_device(0))
    a, b, host = Memory("device", 256), Memory("device", 256), Memory("pinned", 256)
    for kind, want in zip((H2D, D2H, D2D), map(int, sys.argv[1:])):
        to, source = {H2D: (a, host), D2H: (host, b), D2D: (a, b)}[kind]
        source.write(pattern(256)), to.fill(POISON)
        ret = acl.rt.memcpy2d_async(to.addr, 16, source.addr, 16, 8, 4, kind, 0)
        assert ret == want, (kind, ret, want, message())
        ok(acl.rt.synchronize_stream(0))
        assert to.is_poisoned() == (want != 0)
        # The synchronous form never copies inside a device.
        want = INVALID_PARAM if kind == D2D and want == 0 else want
        to.fill(POISON)
        ret = acl.rt.memcpy2d(to.addr, 16, source.addr, 16, 8, 4, kind)
        assert ret == want, (kind, ret, want, message())
        assert to.is_poisoned() == (want != 0)
    print("done")
"""


# proves: R9 R10 N14 N16
@pytest.mark.parametrize("soc, form, inside, at_all", [
    ("Ascend910B1", "ep", 0, 0),
    ("Ascend910_9391", "ep", 0, 0),
    ("Ascend950PR_9599", "ep", 0, 0),
    ("Ascend910A", "ep", INVALID_PARAM, 0),
    ("Ascend310P3", "ep", INVALID_PARAM, 0),
    ("Ascend310B1", "ep", INVALID_PARAM, 0),
    ("Ascend310B1", "rc", NOT_SUPPORTED, NOT_SUPPORTED),
    ("Ascend310P3", "ctrlcpu", NOT_SUPPORTED, NOT_SUPPORTED),
])
def test_products_and_forms(soc, form, inside, at_all):
    codes = (str(code) for code in (at_all, at_all, inside))
    assert passes(PROGRAM, *codes, env={"FERRY_SOC": soc, "FERRY_FORM": form}) == "done\n"
