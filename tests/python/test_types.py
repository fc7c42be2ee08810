"""Every argument of every function: what is of the wrong type raises and is named; what does not fit is a code and a message."""

import decimal

import numpy
import pytest

import acl
import kit
import sheet

RANGES = {
    "usize": (0, 2**64 - 1),
    "u64": (0, 2**64 - 1),
    "u32": (0, 2**32 - 1),
    "i32": (-(2**31), 2**31 - 1),
}
INTS = (*RANGES, "priority")

# Of the wrong type, whatever is wanted. A str is right for some, and so is None, a path that is not given.
WRONG = ["text", 1.0, None, object(), b"bytes", 1j, decimal.Decimal(1), [], {}, numpy.float32(1), numpy.zeros(2, int)]
RIGHT = {
    "path": (str, type(None)),
    "str": (str,),
    "bytes": (bytes, numpy.ndarray, numpy.float32),
    "ndarray": (numpy.ndarray,),
    "list": (list,),
    "pids": (list,),
    "handles": (list,),
    "array": (list, numpy.ndarray, bytes),
    "attributes": (list,),
    "config": (dict,),
    "attribute": (dict,),
    "listener": (type(None),),
    "real": (float, numpy.float32, decimal.Decimal),
}


class Index:
    """Something that is used as an int, but is none."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def arguments(*kinds):
    """Every argument of every function that is of one of these kinds."""
    found = [
        pytest.param(row, index, id=f"{row.name}-{name}")
        for row in sheet.ROWS
        for index, (name, kind) in enumerate(row.arguments)
        if not kinds or kind in kinds
    ]
    return pytest.mark.parametrize("row,index", found)


def call(row, index, value):
    """Calls a function with this value in one place and harmless ones in the others."""
    given = sheet.harmless(row)
    given[index] = value
    return row.function(*given)


@pytest.fixture(autouse=True)
def no_old_messages():
    kit.message()


@arguments()
def test_a_wrong_type_raises_and_names_the_argument(row, index):
    name, kind = row.arguments[index]
    for wrong in WRONG:
        if isinstance(wrong, RIGHT.get(kind, ())):
            continue
        with pytest.raises(TypeError) as raised:
            call(row, index, wrong)
        assert f"'{name}'" in str(raised.value), f"{wrong!r}: {raised.value}"
    assert kit.message() is None, "what raises is no failed call"


@arguments(*INTS)
def test_a_wrong_type_raises_even_behind_numbers_that_do_not_fit(row, index):
    name, _ = row.arguments[index]
    given = [2**200 if kind in INTS else good for (_, kind), good in zip(row.arguments, sheet.harmless(row))]
    given[index] = "text"
    if row.name.startswith("acl.util.ptr_to"):
        given[:index] = sheet.harmless(row)[:index]  # They have no codes: the first that is wrong raises.
    with pytest.raises(TypeError, match=f"'{name}'"):
        row.function(*given)


def code(result):
    return result[-1] if isinstance(result, tuple) else result


# In a child of a process that used acl, every call that gets as far as the library returns 107002, and none does anything.
CHILD = """
    import os, sys
    import acl, kit
    import test_types
    kit.ok(acl.rt.set_device(0))
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    done = 0
    for row, index, kind in test_types.int_arguments():
        for like in test_types.int_likes(kind):
            result = test_types.call(row, index, like)
            said = kit.message()
            assert test_types.code(result) == 107002 and "it must be in" not in said, f"{row} {index} {like}: {result} {said}"
            done += 1
    print(done)
    sys.stdout.flush()
    os._exit(0)
"""


def int_arguments():
    """Every int argument of the functions that have codes."""
    for row in sheet.ROWS:
        for index, (_, kind) in enumerate(row.arguments):
            if kind in INTS and not row.name.startswith("acl.util"):
                yield row, index, kind


def int_likes(kind):
    """What Python takes for an int, and the ends of the range."""
    ends = RANGES.get(kind, RANGES["u32"])
    return [*ends, *map(Index, ends), True, numpy.int8(1), numpy.uint64(1), numpy.array(1), numpy.array([1])[0]]


def test_whatever_is_an_int_to_python_is_taken():
    assert int(kit.passes(CHILD)) == 9 * len(list(int_arguments())) > 1000


def test_what_is_taken_for_an_int_has_its_value(device):
    assert kit.ok(acl.rt.device_can_access_peer(False, True)) == 1
    kit.refused(107001, acl.rt.device_can_access_peer, Index(77), numpy.uint8(1), naming=["device 77 "])
    kit.refused(107001, acl.rt.device_can_access_peer, numpy.int32(-8), Index(1), naming=["device -8 "])
    kit.refused(107017, acl.rt.destroy_stream, numpy.uint64(2**64 - 1), naming=["0xffffffffffffffff"])
    kit.refused(107000, acl.rt.device_enable_peer_access, 1, numpy.uint32(2**32 - 1), naming=["4294967295"])
    host = kit.Memory("plain", 4, b"abcd")
    assert acl.util.ptr_to_bytes(Index(host.addr), True) == b"a"
    assert acl.util.ptr_to_bytes(numpy.uint64(host.addr), numpy.int8(3)) == b"abc"


def test_an_int_like_npy_type():
    host = kit.Memory("plain", 8, bytes(range(8)))
    for two in (2, Index(2), numpy.int16(2)):
        array = acl.util.ptr_to_numpy(numpy.uint64(host.addr), (Index(2), numpy.int8(4)), two)
        assert array.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


# Numbers that name something: one that C cannot have is answered as any other that names nothing.
NOT_A_NAME = {"kind": 100000, "device_id": 107001, "dev_id": 107001, "user_dev_id": 107001, "peer_dev_id": 107001}


def code_outside(row, name):
    """The code of a number that does not fit; None where the number makes no difference."""
    special = {
        ("acl.rt.memcpy", "kind"): None,
        ("acl.rt.reduce_async", "type"): 207000,
        ("acl.rt.device_peer_access_status", "device_id"): 107000,
    }
    return special.get((row.name, name), NOT_A_NAME.get(name, 107000))


@arguments(*RANGES)
def test_an_int_that_does_not_fit_is_a_code_and_a_message(row, index):
    name, kind = row.arguments[index]
    least, most = RANGES[kind]
    want = code_outside(row, name)
    if want is None:
        return
    for value in (least - 1, most + 1, -(2**63) - 1, 2**64, 2**200, Index(2**77), numpy.int64(least - 1)):
        number = value.value if isinstance(value, Index) else int(value)
        if row.name.startswith("acl.util.ptr_to"):
            with pytest.raises(ValueError, match=f"{name} is {number}: it must be in {least} to {most}"):
                call(row, index, value)
            continue
        result = call(row, index, value)
        said = kit.message()
        assert code(result) == want, f"{value}: {result}"
        assert f"{row.name} failed with {want}" in said
        assert f"{name} is {number}: it must be in {least} to {most}" in said
        if isinstance(result, tuple):
            nothing = [output in (0, "", kit.NO_PIECE) for output in result[:-1] if not isinstance(output, dict)]
            assert all(nothing), result


@arguments("i32")
def test_a_name_that_c_cannot_have_is_answered_as_any_that_it_does_not_know(row, index, device):
    """C itself says what an unknown one is: where it gets that far, its code is the same."""
    name, _ = row.arguments[index]
    if name not in ("kind", "type", "device_id", "dev_id", "peer_dev_id", "policy", "attr", "block_type"):
        return
    if row.name.startswith("acl.rt.memcpy") or row.name in UNREACHED:
        return  # the harmless other arguments are refused first; their own tests have good ones
    unknown = code(call(row, index, 0x7E7E7E7E))
    for number in (2**31, 2**40, -(2**31) - 1, 2**200):
        assert code(call(row, index, number)) == unknown, f"{name} {number}"


# Other arguments come first, as documented.
UNREACHED = ("acl.rt.reduce_async", "acl.rt.set_memcpy_desc", "acl.rt.launch_callback", "acl.rt.host_register")


def test_a_number_of_thousands_of_digits_is_not_written_out():
    kit.refused(107000, acl.rt.free, 10**5000, naming=["dev_ptr is a very large number"])
    kit.refused(107000, acl.rt.free, -(10**5000), naming=["dev_ptr is a very large negative number"])


@arguments(*INTS)
def test_what_index_raises_is_passed_on(row, index):
    for error in (ZeroDivisionError("mine"), OverflowError("mine"), KeyboardInterrupt("mine"), ValueError("mine")):
        with pytest.raises(type(error), match="mine"):
            call(row, index, Index(error))
    with pytest.raises(TypeError, match=f"'{row.arguments[index][0]}': mine"):
        call(row, index, Index(TypeError("mine")))


def test_a_priority_outside_is_clamped_and_not_refused(device):
    for priority in (-1, 8, 2**40, -(2**200), 10**5000, Index(-(10**5000))):
        kit.ok(acl.rt.destroy_stream(kit.ok(acl.rt.create_stream_with_config(priority, 0))))


@arguments("str", "path")
def test_a_str_that_cannot_be_a_c_string_is_a_code(row, index):
    name = row.arguments[index][0]
    for text, words in (("a\0b", "has a zero at 1"), ("\ud800", "cannot be a C string")):
        result = call(row, index, text)
        said = kit.message()
        assert code(result) == 107000 and f"{row.name.replace('.sys', '')} failed" in said, result
        assert f"{name} {words}" in said


@arguments("str")
def test_a_str_of_any_characters_is_taken(row, index):
    for text in ("ключ", "\udcff", "x" * 10000):
        assert code(call(row, index, text)) != 0
        assert "C string" not in kit.message()


CONFIG = {"attrs": [{"attr": 1, "value": {"moduleId": 33}}], "numAttrs": 1}
PROPERTIES = sheet.HARMLESS["properties"]
LOCATION = {"id": 0, "type": 0}


def changed(original, *path, to):
    """A copy of nested dicts and lists in which one thing is another, or with `to=...` not there."""
    key, *rest = path
    copy = dict(original) if isinstance(original, dict) else list(original)
    if rest:
        copy[key] = changed(copy[key], *rest, to=to)
    elif to is ...:
        del copy[key]
    else:
        copy[key] = to
    return copy


WRONG_DICTS = {
    "config": [
        (changed(CONFIG, "more", to=1), "argument 'cfg': there is a key 'more'; the keys are attrs, numAttrs"),
        (changed(CONFIG, 1, to=1), "argument 'cfg': there is a key 1"),
        (changed(CONFIG, "numAttrs", to=...), "argument 'cfg': the key 'numAttrs' is missing"),
        (changed(CONFIG, "attrs", to=...), "argument 'cfg': the key 'attrs' is missing"),
        (changed(CONFIG, "numAttrs", to="1"), "argument 'cfg['numAttrs']'"),
        (changed(CONFIG, "attrs", to={}), "argument 'cfg['attrs']': 'dict' object is not a list"),
        (changed(CONFIG, "attrs", 0, to=1), "argument 'cfg['attrs'][0]': 'int' object is not a dict"),
        (changed(CONFIG, "attrs", 0, "attr", to=...), "argument 'cfg['attrs'][0]': the key 'attr' is missing"),
        (changed(CONFIG, "attrs", 0, "attr", to=None), "argument 'cfg['attrs'][0]['attr']'"),
        (changed(CONFIG, "attrs", 0, "value", to=...), "argument 'cfg['attrs'][0]': the key 'value' is missing"),
        (changed(CONFIG, "attrs", 0, "value", to="33"), "argument 'cfg['attrs'][0]['value']'"),
        (changed(CONFIG, "attrs", 0, "value", to={}), "argument 'cfg['attrs'][0]['value']': the key 'moduleId' is missing"),
        (changed(CONFIG, "attrs", 0, "value", "moduleId", to=1.5), "argument 'cfg['attrs'][0]['value']['moduleId']'"),
        (changed(CONFIG, "attrs", 0, "value", "deviceId", to="0"), "argument 'cfg['attrs'][0]['value']['deviceId']'"),
        (changed(CONFIG, "attrs", 0, "value", "rsv", to=0), "argument 'cfg['attrs'][0]['value']['rsv']'"),
        (changed(CONFIG, "attrs", 0, "value", "rsv", to=[0, "0"]), "argument 'cfg['attrs'][0]['value']['rsv'][1]'"),
        (changed(CONFIG, "attrs", 0, "more", to=0), "argument 'cfg['attrs'][0]': there is a key 'more'"),
    ],
    "properties": [
        ({}, "argument 'prop': the key 'handleType' is missing"),
        (changed(PROPERTIES, "more", to=0), "argument 'prop': there is a key 'more'"),
        *((changed(PROPERTIES, key, to=...), f"argument 'prop': the key '{key}' is missing") for key in list(PROPERTIES)[:4]),
        *((changed(PROPERTIES, key, to="0"), f"argument 'prop['{key}']'") for key in PROPERTIES),
        (changed(PROPERTIES, "location", "id", to=...), "argument 'prop['location']': the key 'id' is missing"),
        (changed(PROPERTIES, "location", "type", to=...), "argument 'prop['location']': the key 'type' is missing"),
        (changed(PROPERTIES, "location", "type", to=1.0), "argument 'prop['location']['type']'"),
    ],
    "attributes": [
        ([1], "argument 'attrs[0]': 'int' object is not a dict"),
        ([{"srcLoc": LOCATION}], "argument 'attrs[0]': the key 'dstLoc' is missing"),
        ([{"dstLoc": LOCATION}], "argument 'attrs[0]': the key 'srcLoc' is missing"),
        ([{"dstLoc": LOCATION, "srcLoc": {"id": "0", "type": 0}}], "argument 'attrs[0]['srcLoc']['id']'"),
        ([{"dstLoc": LOCATION, "srcLoc": LOCATION, "rsv": 0}], "argument 'attrs[0]['rsv']'"),
    ],
    "pids": [
        ([1, "2"], "argument 'pid[1]'"),
        ([2**40, None], "argument 'pid[1]'"),
        ((1, 2), "argument 'pid': 'tuple' object is not a list"),
    ],
    "handles": [
        ([1, "2"], "argument 'notifies[1]'"),
        ((1, 2), "argument 'notifies': 'tuple' object is not a list"),
    ],
    "array": [
        ([0, "0"], "[1]'"),
        (["0"], "[0]'"),
        (numpy.zeros(2), "no integers"),
        (numpy.zeros((2, 2), int), "2 dimensions"),
    ],
    "tuple": [
        ([1], "argument 'shape': 'list' object is not a tuple"),
        ((1, "2"), "argument 'shape[1]'"),
    ],
}


@arguments(*WRONG_DICTS)
def test_what_is_wrong_inside_an_argument_raises_and_says_where(row, index):
    name, kind = row.arguments[index]
    for wrong, words in WRONG_DICTS[kind]:
        with pytest.raises(TypeError) as raised:
            call(row, index, wrong)
        assert words in str(raised.value) and f"'{name}" in str(raised.value), f"{wrong}: {raised.value}"


OUTSIDE = {
    "config": [
        (changed(CONFIG, "numAttrs", to=-1), "cfg['numAttrs'] is -1"),
        (changed(CONFIG, "numAttrs", to=2), "cfg['numAttrs'] is 2, but cfg['attrs'] has 1"),
        (changed(CONFIG, "attrs", 0, "attr", to=2**31), "cfg['attrs'][0]['attr'] is 2147483648"),
        (changed(CONFIG, "attrs", 0, "value", "moduleId", to=65536), "cfg['attrs'][0]['value']['moduleId'] is 65536"),
        (changed(CONFIG, "attrs", 0, "value", "moduleId", to=-1), "cfg['attrs'][0]['value']['moduleId'] is -1"),
        (changed(CONFIG, "attrs", 0, "value", to=2**32), "cfg['attrs'][0]['value'] is 4294967296"),
    ],
    "properties": [
        (changed(PROPERTIES, "handleType", to=2**31), "prop['handleType'] is 2147483648"),
        (changed(PROPERTIES, "location", "id", to=-1), "prop['location']['id'] is -1"),
        (changed(PROPERTIES, "reserve", to=-1), "prop['reserve'] is -1"),
    ],
    "pids": [([1, 2**31], "pid[1] is 2147483648: it must be in -2147483648 to 2147483647")],
    "handles": [([1, -1], "notifies[1] is -1")],
    "attributes": [
        ([{"dstLoc": {"id": -1, "type": 0}, "srcLoc": LOCATION}], "attrs[0]['dstLoc']['id'] is -1"),
        ([{"dstLoc": LOCATION, "srcLoc": LOCATION, "rsv": [0] * 17}], "attrs[0]['rsv'] has 17 numbers"),
    ],
}


@arguments(*OUTSIDE)
def test_a_number_inside_an_argument_that_does_not_fit_is_a_code(row, index):
    for value, words in OUTSIDE[row.arguments[index][1]]:
        result = call(row, index, value)
        said = kit.message()
        assert code(result) == 107000 and words in said, f"{value}: {result}, {said}"
