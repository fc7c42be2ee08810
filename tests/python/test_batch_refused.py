"""acl.rt.memcpy_batch_async: what is refused, with which code, and which piece is at fault."""

import array

import numpy
import pytest

import acl
from batches import ARRAYS, DEVICE, DOWN, HOST, MANAGED, NUMA, SIZE, UNREGISTERED, UP, Batch, attr
from kit import (
    INVALID_HANDLE,
    INVALID_PARAM,
    NO_CONTEXT,
    NO_PIECE,
    PARAM_INVALID,
    STREAM_CONTEXT,
    Memory,
    address,
    ok,
    pattern,
    refused,
)


class Scene:
    """A good batch to bend, and memory that a refused one leaves as it is."""

    def __init__(self, stream):
        self.there, self.locked = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
        self.plain, gone = Memory("plain", SIZE, pattern(SIZE, 1)), Memory("device", SIZE)
        self.freed, self.stream = gone.addr, stream
        gone.free()
        self.batch = Batch(self.there, self.locked, stream)

    def piece(self, name, at, value):
        """The array with another entry."""
        items = list(getattr(self.batch, name))
        items[at] = value
        return {name: items}

    def refuses(self, code, fail_index, naming=(), **changes):
        """As lists, and those that can be as NumPy arrays."""
        assert refused(code, acl.rt.memcpy_batch_async, *self.batch.args(**changes), naming=naming) == fail_index
        numbers = {name: changes.get(name, getattr(self.batch, name)) for name in ARRAYS}
        if all(isinstance(item, int) and 0 <= item < 2**64 for items in numbers.values() for item in items):
            numbers = {name: numpy.array(items, numpy.uint64) for name, items in numbers.items()}
            args = self.batch.args(**{**changes, **numbers})
            assert refused(code, acl.rt.memcpy_batch_async, *args, naming=naming) == fail_index


@pytest.fixture
def scene(stream):
    scene = Scene(stream)
    yield scene
    ok(acl.rt.synchronize_stream(stream))
    assert scene.there.is_poisoned(), "a refused batch copies nothing at all"
    assert scene.locked.read() == pattern(SIZE) and scene.plain.read() == pattern(SIZE, 1)


# proves: R52 R59 R60 R61 R62
@pytest.mark.parametrize("changes", [
    {"num_batches": 0},
    {"num_attrs": 0},
    {"attrs_indexes": [1]},
    {"attrs": [DOWN] * 2, "attrs_indexes": [0, 0], "num_attrs": 2},
    {"attrs": [DOWN] * 3, "attrs_indexes": [0, 3, 2], "num_attrs": 3},
    {"attrs": [DOWN] * 3, "attrs_indexes": [0, 2, 2], "num_attrs": 3},
    {"attrs": [DOWN] * 2, "attrs_indexes": [0, 5], "num_attrs": 2},
    {"attrs": [DOWN] * 2, "attrs_indexes": [0, 2**64 - 1], "num_attrs": 2},
    {"attrs": [DOWN] * 6, "attrs_indexes": [0, 1, 2, 3, 4, 5], "num_attrs": 6},
], ids=lambda changes: " ".join(f"{name}={value}" for name, value in changes.items() if name != "attrs"))
def test_attributes_that_do_not_cover_the_pieces(scene, changes):
    scene.refuses(PARAM_INVALID, NO_PIECE, **changes)


# proves: R48 R50 R52
def test_arrays_that_are_too_short(scene):
    batch = scene.batch
    for name in ARRAYS[:4]:
        words = ("num_batches is 5", f"{name} has 4 entries")
        scene.refuses(PARAM_INVALID, NO_PIECE, words, **{name: getattr(batch, name)[:4]})
        scene.refuses(PARAM_INVALID, NO_PIECE, ("0 entries",), **{name: []})
    scene.refuses(PARAM_INVALID, NO_PIECE, ("num_batches is 6", "dsts has 5"), num_batches=6)
    scene.refuses(PARAM_INVALID, NO_PIECE, (str(2**64 - 1),), num_batches=2**64 - 1)
    scene.refuses(PARAM_INVALID, NO_PIECE, ("num_attrs is 2", "attrs has 1"), num_attrs=2)
    words = ("num_attrs is 2", "attrs_indexes has 1")
    scene.refuses(PARAM_INVALID, NO_PIECE, words, num_attrs=2, attrs=[DOWN] * 2)
    scene.refuses(PARAM_INVALID, NO_PIECE, ("attrs has 0",), attrs=[])


# proves: R52
def test_a_piece_larger_than_its_room(scene):
    scene.refuses(PARAM_INVALID, NO_PIECE, **scene.piece("dest_maxs", 2, 998))
    scene.refuses(PARAM_INVALID, NO_PIECE, **scene.piece("sizes", 3, 2**64 - 1))


# proves: R51
def test_the_piece_whose_memory_is_not_what_it_says(scene):
    there, locked = scene.there.addr, scene.locked.addr
    for at, name, bad in (
        (0, "dsts", 0x10),
        (1, "srcs", 0xDEADBEEFDEADBEEF),
        (2, "srcs", 2**64 - 100),
        (1, "dsts", scene.freed),
        (2, "dsts", there + SIZE),
        (4, "dsts", there + SIZE + 32 - 63),
        (0, "srcs", locked + SIZE - 99),
        (2, "srcs", locked - 1),
        (1, "srcs", there + 3000),
        (2, "dsts", locked + 3000),
        (4, "dsts", scene.plain.addr),
    ):
        scene.refuses(PARAM_INVALID, at, (address(bad),), **scene.piece(name, at, bad))
    too_long = {**scene.piece("sizes", 2, 2**63), **scene.piece("dest_maxs", 2, 2**63)}
    scene.refuses(PARAM_INVALID, 2, **too_long)
    # The first of several.
    bad = scene.piece("dsts", 4, scene.freed)["dsts"]
    bad[2] = scene.freed
    scene.refuses(PARAM_INVALID, 2, dsts=bad)


def test_a_piece_at_0(scene):
    for name in ("dsts", "srcs"):
        refused(INVALID_PARAM, acl.rt.memcpy_batch_async, *scene.batch.args(**scene.piece(name, 1, 0)))


# proves: R51 R63
@pytest.mark.parametrize("wrong", [
    attr(DEVICE, DEVICE),
    attr(HOST, HOST),
    attr(UNREGISTERED, HOST),
    attr(DEVICE, UNREGISTERED),
    attr(DEVICE, HOST, dst_id=1),
    attr(DEVICE, HOST, dst_id=2**32 - 1),
    attr(DEVICE, MANAGED),
    attr(DEVICE, NUMA),
    attr(5, HOST),
    attr(-1, HOST),
    attr(DEVICE, HOST, rsv=[1]),
    attr(DEVICE, HOST, rsv=[0] * 15 + [1]),
    UP,
], ids=str)
def test_the_piece_whose_attribute_does_not_fit(scene, wrong):
    scene.refuses(PARAM_INVALID, 0, attrs=[wrong])
    scene.refuses(PARAM_INVALID, 2, attrs=[DOWN, wrong], attrs_indexes=[0, 2], num_attrs=2)
    scene.refuses(PARAM_INVALID, 4, attrs=[DOWN, DOWN, wrong], attrs_indexes=[0, 2, 4], num_attrs=3)


# proves: R63
def test_both_directions_in_one_batch(scene):
    there, host = scene.there.addr, scene.locked.addr
    turned = {"dsts": [there] * 3 + [host + 64] * 2, "srcs": [host] * 3 + [there + 64] * 2}
    given = {**turned, "sizes": [8] * 5, "dest_maxs": [8] * 5}
    scene.refuses(PARAM_INVALID, 3, **given, attrs=[DOWN, UP], attrs_indexes=[0, 3], num_attrs=2)


def test_numbers_that_do_not_fit(scene):
    for name in ARRAYS:
        at = len(getattr(scene.batch, name)) - 1
        for bad in (-1, 2**64, -(2**70)):
            words = (f"{name}[{at}] is {bad}", "0 to 18446744073709551615")
            scene.refuses(PARAM_INVALID, NO_PIECE, words, **scene.piece(name, at, bad))
        # Negative numbers of each width.
        for kind in (numpy.int8, numpy.int16, numpy.int32, numpy.int64):
            items = numpy.zeros(at + 1, kind)
            items[at] = -1
            scene.refuses(PARAM_INVALID, NO_PIECE, (f"{name}[{at}] is -1",), **{name: items})
            scene.refuses(PARAM_INVALID, NO_PIECE, (f"{name}[0] is -1",), **{name: items[::-1]})
        scene.refuses(PARAM_INVALID, NO_PIECE, (f"{name}[{at}] is -5",), **{name: array.array("q", [0] * at + [-5])})
    for name in ("num_batches", "num_attrs", "stream"):
        for bad in (-1, 2**64):
            scene.refuses(PARAM_INVALID, NO_PIECE, (f"{name} is {bad}",), **{name: bad})
    for place, key, bad, most in (
        ("dstLoc", "id", 2**32, "4294967295"),
        ("srcLoc", "id", -1, "4294967295"),
        ("dstLoc", "type", 2**31, "2147483647"),
        ("srcLoc", "type", -(2**31) - 1, "2147483647"),
    ):
        wrong = attr(DEVICE, HOST)
        wrong[place][key] = bad
        words = (f"attrs[1]['{place}']['{key}'] is {bad}", most)
        scene.refuses(PARAM_INVALID, NO_PIECE, words, attrs=[DOWN, wrong])
    scene.refuses(PARAM_INVALID, NO_PIECE, ("rsv", "17"), attrs=[attr(DEVICE, HOST, rsv=[0] * 17)])
    scene.refuses(PARAM_INVALID, NO_PIECE, ("attrs[0]['rsv'][2] is -1",), attrs=[attr(DEVICE, HOST, rsv=[0, 0, -1])])
    for number in (256, 2**32 - 256):
        scene.refuses(PARAM_INVALID, NO_PIECE, ("attrs[0]['rsv'][1]",), attrs=[attr(DEVICE, HOST, rsv=[0, number])])


@pytest.mark.parametrize("wrong", [
    None,
    5,
    "12345",
    1.5,
    {0: 1},
    {1, 2},
    range(5),
    [1.5] * 5,
    ["1"] * 5,
    [None] * 5,
    [[1], [2], [3], [4], [5]],
    numpy.zeros(5),
    numpy.zeros(5, numpy.float32),
    numpy.zeros(5, bool),
    numpy.zeros(5, complex),
    numpy.zeros(5, ">u8"),
    numpy.zeros(5, [("a", "u8")]),
    numpy.zeros(5, "S8"),
    numpy.zeros((5, 1), numpy.uint64),
    numpy.zeros((1, 5), numpy.uint64),
    numpy.zeros((), numpy.uint64),
    numpy.zeros(5, object),
    numpy.zeros(5, "datetime64[s]"),
    array.array("d", [0] * 5),
    memoryview(numpy.zeros((5, 1), numpy.uint64)),
], ids=lambda wrong: f"{type(wrong).__name__} {getattr(wrong, 'dtype', '')}{getattr(wrong, 'shape', wrong)}")
@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_no_array_of_integers_raises(scene, name, wrong):
    with pytest.raises(TypeError, match=f"'{name}"):
        scene.batch(**{name: wrong})


@pytest.mark.parametrize("name", ["num_batches", "num_attrs", "stream"])
def test_counts_and_the_stream_are_ints(scene, name):
    for wrong in (None, 1.0, "1", [1], b"1"):
        with pytest.raises(TypeError, match=f"'{name}'"):
            scene.batch(**{name: wrong})


def without(key, inside=None):
    given = attr(DEVICE, HOST)
    del (given[inside] if inside else given)[key]
    return given


@pytest.mark.parametrize("wrong, words", [
    (None, "attrs"),
    (DOWN, "attrs"),
    ([None], r"attrs\[0\]"),
    ([DOWN, [DOWN]], r"attrs\[1\]"),
    ([{}], "dstLoc"),
    ([without("dstLoc")], "dstLoc"),
    ([without("srcLoc")], "srcLoc"),
    ([without("id", "dstLoc")], r"attrs\[0\]\['dstLoc'\].*id"),
    ([DOWN, without("type", "srcLoc")], r"attrs\[1\]\['srcLoc'\].*type"),
    ([attr(DEVICE, HOST, kind=1)], "kind"),
    ([attr(DEVICE, HOST, **{"dstloc": 1})], "dstloc"),
    ([{**DOWN, 5: 1}], "5"),
    ([{**DOWN, "dstLoc": {"id": 0, "type": 1, "kind": 2}}], r"attrs\[0\]\['dstLoc'\].*kind"),
    ([{**DOWN, "dstLoc": 1}], r"attrs\[0\]\['dstLoc'\]"),
    ([{**DOWN, "srcLoc": [0, 1]}], r"attrs\[0\]\['srcLoc'\]"),
    ([attr(1.0, HOST)], r"attrs\[0\]\['dstLoc'\]\['type'\]"),
    ([attr(DEVICE, HOST, src_id="0")], r"attrs\[0\]\['srcLoc'\]\['id'\]"),
    ([attr(DEVICE, HOST, rsv=0)], r"attrs\[0\]\['rsv'\]"),
    ([attr(DEVICE, HOST, rsv=["0"])], r"attrs\[0\]\['rsv'\]\[0\]"),
], ids=str)
def test_attributes_that_are_not_built_like_the_struct_raise(scene, wrong, words):
    with pytest.raises(TypeError, match=words):
        scene.batch(attrs=wrong)


# proves: R53
def test_bad_streams_are_refused(scene, stream):
    gone = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_stream(gone))
    for bad in (gone, 12345, scene.there.addr):
        scene.refuses(INVALID_HANDLE, NO_PIECE, (address(bad),), stream=bad)
    here, other = ok(acl.rt.get_context()), ok(acl.rt.create_context(0))
    scene.refuses(STREAM_CONTEXT, NO_PIECE)
    ok(acl.rt.destroy_context(other))
    ok(acl.rt.set_context(here))


def test_a_thread_without_a_context_copies_nothing(scene):
    results = []
    ok(acl.util.stop_thread(ok(acl.util.start_thread(lambda _: results.append(scene.batch(stream=0)), []))))
    assert results == [(NO_PIECE, NO_CONTEXT)]
