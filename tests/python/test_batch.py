"""acl.rt.memcpy_batch_async: what the arrays and attributes may be, what is copied, and who waits."""

import array

import numpy
import pytest

import acl
from batches import ARRAYS, DEVICE, DOWN, HOST, PIECES, SIZE, UNREGISTERED, UP, Batch, attr, by_hand
from kit import (
    NO_PIECE,
    NOT_READY,
    NOT_SUPPORTED,
    PARAM_INVALID,
    PINNED,
    POISON,
    Call,
    Gate,
    Memory,
    ok,
    passes,
    pattern,
    settle,
)


# proves: R41 R42 R43 R47 R54 R56
@pytest.mark.parametrize("dst, src", [("device", "pinned"), ("device", "plain"), ("pinned", "device"), ("plain", "device")])
def test_each_source_goes_to_its_destination(stream, dst, src):
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    result = Batch(to, source, stream)()
    assert result == (NO_PIECE, 0), acl.get_recent_err_msg()
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == by_hand(pattern(SIZE))


def strided(items):
    whole = numpy.full(3 * len(items), 2**64 - 1, numpy.uint64)
    whole[::3] = items
    return whole[::3]


def backwards(items):
    return numpy.array(items[::-1], numpy.uint64)[::-1]


def misaligned(items):
    raw = bytearray(1 + 8 * len(items))
    raw[1:] = numpy.array(items, numpy.uint64).tobytes()
    return numpy.frombuffer(raw, numpy.uint64, offset=1)


def read_only(items):
    whole = numpy.array(items, numpy.uint64)
    whole.flags.writeable = False
    return whole


# Everything that the arrays may be.
FORMS = {
    "list": list,
    "tuple": tuple,
    "list of NumPy numbers": lambda items: [numpy.uint64(item) for item in items],
    "uint64": lambda items: numpy.array(items, numpy.uint64),
    "int64": lambda items: numpy.array(items, numpy.int64),
    "strided": strided,
    "backwards": backwards,
    "misaligned": misaligned,
    "read-only": read_only,
    "longer": lambda items: numpy.array([*items, 2**64 - 1, 0], numpy.uint64),
    "longer list": lambda items: [*items, 2**64 - 1],
    "column of a matrix": lambda items: numpy.array([items, items], numpy.uint64).T.copy()[:, 1],
    "array.array Q": lambda items: array.array("Q", items),
    "array.array q": lambda items: array.array("q", items),
    "array.array L": lambda items: array.array("L", items),
    "memoryview": lambda items: memoryview(array.array("Q", items)),
    "cast memoryview": lambda items: memoryview(numpy.array(items, numpy.uint64).tobytes()).cast("Q"),
    "sliced memoryview": lambda items: memoryview(strided(items).base)[::3],
}
# What no address fits into, but sizes and indexes do.
NARROW = {
    "int32": lambda items: numpy.array(items, numpy.int32),
    "uint32": lambda items: numpy.array(items, numpy.uint32),
    "int16": lambda items: numpy.array(items, numpy.int16),
    "uint16": lambda items: numpy.array(items, numpy.uint16),
    "strided int16": lambda items: numpy.array([items, items], numpy.int16).T.copy()[:, 0],
    "array.array i": lambda items: array.array("i", items),
    "array.array H": lambda items: array.array("H", items),
}


# proves: R47 R56
@pytest.mark.parametrize("form", [*FORMS, *NARROW])
def test_what_the_arrays_may_be(stream, form):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    batch = Batch(to, source, stream)
    make = FORMS.get(form) or NARROW[form]
    names = ARRAYS if form in FORMS else ("dest_maxs", "sizes", "attrs_indexes")
    given = {name: make(getattr(batch, name)) for name in names}
    kept = {name: list(items) for name, items in given.items()}
    # Each for itself, and all together.
    for changes in (*({name: items} for name, items in given.items()), given):
        to.fill(POISON)
        assert batch(**changes) == (NO_PIECE, 0), (changes, acl.get_recent_err_msg())
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == by_hand(pattern(SIZE))
    assert all(list(items) == kept[name] for name, items in given.items()), "the arrays are only read"


def test_bytes_are_integers_too(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    pieces = [(10, 20, 30), (100, 200, 255)]
    batch = Batch(to, source, stream, pieces)
    for sizes in (b"\x1e\xff", bytearray(b"\x1e\xff"), numpy.array([30, 255], numpy.uint8)):
        to.fill(POISON)
        assert batch(sizes=sizes, attrs_indexes=b"\0") == (NO_PIECE, 0)
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == by_hand(pattern(SIZE), pieces)


def test_one_array_may_be_given_twice(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    sizes = numpy.array([size for _, _, size in PIECES], numpy.uint64)
    assert Batch(to, source, stream)(sizes=sizes, dest_maxs=sizes) == (NO_PIECE, 0)
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == by_hand(pattern(SIZE))


# proves: R48
def test_only_num_batches_pieces_are_copied(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    for count in (1, 3, 5):
        to.fill(POISON)
        assert Batch(to, source, stream)(num_batches=count) == (NO_PIECE, 0)
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == by_hand(pattern(SIZE), PIECES[:count])


def test_thousands_of_pieces(stream):
    count, each = 4096, 16
    to, source = Memory("device", count * each), Memory("pinned", count * each, pattern(count * each))
    order = numpy.random.default_rng(5).permutation(count).astype(numpy.uint64)
    dsts = numpy.uint64(to.addr) + order * numpy.uint64(each)
    srcs = numpy.uint64(source.addr) + numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(each)
    sizes = numpy.full(count, each, numpy.uint64)
    result = acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, count, [DOWN], [0], 1, stream)
    assert result == (NO_PIECE, 0)
    ok(acl.rt.synchronize_stream(stream))
    rows = numpy.frombuffer(pattern(count * each), numpy.uint8).reshape(count, each)
    want = numpy.zeros_like(rows)
    want[order] = rows
    assert to.read() == want.tobytes()


# proves: R45 R46 R53
@pytest.mark.parametrize("dst, src", [("device", "pinned"), ("pinned", "device")])
@pytest.mark.parametrize("make", [list, FORMS["uint64"]], ids=["list", "uint64"])
def test_page_locked_memory_is_copied_after_the_call(stream, dst, src, make):
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    batch = Batch(to, source, stream)
    given = {name: make(getattr(batch, name)) for name in ARRAYS}
    with Gate(stream) as gate:
        assert Call(lambda: batch(**given)).returned() == (NO_PIECE, 0)
        settle()
        assert to.is_poisoned()
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        # The arrays are the caller's again, and may change or go away.
        for name, items in given.items():
            for at in range(len(items)):
                items[at] = 0
        given.clear()
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
    assert to.read() == by_hand(pattern(SIZE))


# proves: R43 R45
def test_memory_registered_as_page_locked_is_copied_after_the_call(stream):
    to, source = Memory("device", SIZE), Memory("plain", SIZE, pattern(SIZE))
    ok(acl.rt.host_register_v2(source.addr, SIZE, PINNED))
    with Gate(stream):
        assert Call(Batch(to, source, stream)).returned() == (NO_PIECE, 0)
        assert to.is_poisoned()
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == by_hand(pattern(SIZE))
    ok(acl.rt.host_unregister(source.addr))


# proves: R43 R44
@pytest.mark.parametrize("dst, src", [("device", "plain"), ("plain", "device")])
def test_pageable_memory_makes_the_call_wait(stream, dst, src):
    to, source = Memory(dst, SIZE), Memory(src, SIZE, pattern(SIZE))
    with Gate(stream) as gate:
        call = Call(Batch(to, source, stream)).blocked()
        assert to.is_poisoned()
        gate.open()
        assert call.join() == (NO_PIECE, 0)
        assert to.read() == by_hand(pattern(SIZE))


# proves: R43 R44
def test_one_pageable_piece_makes_the_call_wait(stream):
    to, locked, plain = Memory("device", SIZE), Memory("pinned", SIZE), Memory("plain", SIZE)
    batch = Batch(to, locked, stream)
    batch.srcs[4] = plain.addr
    with Gate(stream) as gate:
        call = Call(batch).blocked()
        gate.open()
        assert call.join() == (NO_PIECE, 0)


def test_an_array_in_use_cannot_be_resized(stream):
    """While the call waits it reads the caller's array where it lies, so that must not move."""
    to, source = Memory("device", SIZE), Memory("plain", SIZE, pattern(SIZE))
    batch = Batch(to, source, stream)
    srcs = array.array("Q", batch.srcs)
    with Gate(stream) as gate:
        call = Call(lambda: batch(srcs=srcs)).blocked()
        with pytest.raises(BufferError):
            srcs.append(1)
        gate.open()
        assert call.join() == (NO_PIECE, 0)
    srcs.append(1)
    assert to.read() == by_hand(pattern(SIZE))


# proves: R49 R50 R57 R58
def test_attributes_cover_the_pieces_from_their_index_on(stream):
    """Only the right borders make UNREGISTERED true, which is wrong for page-locked memory."""
    to, locked, plain = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE)), Memory("plain", SIZE, pattern(SIZE))
    pieces = [(i * 100, i * 300, 100) for i in range(10)]
    batch = Batch(to, locked, stream, pieces)
    batch.srcs[6:] = [plain.addr + src for _, src, _ in pieces[6:]]
    mixed = {"attrs": [DOWN, attr(DEVICE, UNREGISTERED)], "num_attrs": 2}
    for make in FORMS.values():
        to.fill(POISON)
        assert batch(attrs_indexes=make([0, 6]), **mixed) == (NO_PIECE, 0), acl.get_recent_err_msg()
        assert to.read() == by_hand(pattern(SIZE), pieces)
    to.fill(POISON)
    assert batch(attrs_indexes=[0, 5], **mixed) == (5, PARAM_INVALID)
    assert to.is_poisoned()


# proves: R49 R57
def test_one_attribute_for_each_piece(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    many = {"attrs": (DOWN,) * 5, "attrs_indexes": numpy.arange(5), "num_attrs": 5}
    assert Batch(to, source, stream)(**many) == (NO_PIECE, 0)
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == by_hand(pattern(SIZE))
    # More of them than num_attrs says are left alone, whatever they are.
    more = {"attrs": [DOWN, UP], "attrs_indexes": [0, 0, 7], "num_attrs": 1}
    assert Batch(to, source, stream)(**more) == (NO_PIECE, 0)
    ok(acl.rt.synchronize_stream(stream))


def test_the_id_of_a_host_is_ignored_and_reserved_bytes_may_be_zero(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    for good in (
        attr(DEVICE, HOST, src_id=7),
        attr(DEVICE, HOST, rsv=[0] * 16),
        attr(DEVICE, HOST, rsv=[]),
        attr(DEVICE, HOST, rsv=(0, 0)),
    ):
        to.fill(POISON)
        assert Batch(to, source, stream)(attrs=[good]) == (NO_PIECE, 0)
        ok(acl.rt.synchronize_stream(stream))
        assert to.read() == by_hand(pattern(SIZE))


PROGRAM = """
    import sys
    import acl
    from kit import *

    ok(acl.rt.set_device(0))
    to, source = Memory("device", 64), Memory("pinned", 64, pattern(64))
    attrs = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
    count = 5
    args = [to.addr] * count, [64] * count, [source.addr] * count, [64] * count, count
    result = acl.rt.memcpy_batch_async(*args, attrs, [0], 1, 0)
    assert result == (NO_PIECE, int(sys.argv[1])), (result, message())
    ok(acl.rt.synchronize_stream(0))
    assert to.is_poisoned() if result[1] else to.read() == pattern(64)
    print("done")
"""


# proves: R64
@pytest.mark.parametrize("soc, form, code", [
    ("Ascend910B1", "ep", 0),
    ("Ascend910_9391", "ep", 0),
    ("Ascend950PR_9599", "ep", 0),
    ("Ascend310B1", "ep", NOT_SUPPORTED),
    ("Ascend310B1", "rc", NOT_SUPPORTED),
    ("Ascend310P3", "ep", NOT_SUPPORTED),
    ("Ascend910A", "ep", NOT_SUPPORTED),
])
def test_products_and_forms(soc, form, code):
    assert passes(PROGRAM, str(code), env={"FERRY_SOC": soc, "FERRY_FORM": form}) == "done\n"


def test_a_limit_that_was_asked_for():
    assert passes(PROGRAM, "0", env={"FERRY_BATCH_LIMIT": "5"}) == "done\n"
    assert passes(PROGRAM, str(PARAM_INVALID), env={"FERRY_BATCH_LIMIT": "4"}) == "done\n"
