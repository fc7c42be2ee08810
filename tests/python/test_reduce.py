"""acl.rt.reduce_async: what it computes, beside NumPy; and acl.rt.malloc_for_task_scheduler."""

import numpy as np
import pytest

import acl
import kit

SUM, MAX, MIN, EQUAL = 10, 11, 12, 13
TYPES = {"float32": 0, "float16": 1, "int8": 2, "int32": 3, "int16": 6}
KINDS = {SUM: np.add, MAX: np.maximum, MIN: np.minimum}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TYPES)
def test_computes_what_numpy_does(stream, name, kind):
    random = np.random.default_rng(TYPES[name] + kind)
    left, right = (random.integers(-100, 100, 1000).astype(name) for _ in range(2))
    dst, src = (kit.Memory("device", side.nbytes, side.tobytes()) for side in (left, right))
    kit.ok(acl.rt.reduce_async(dst.addr, src.addr, right.nbytes, kind, TYPES[name], stream, 0))
    kit.ok(acl.rt.synchronize_stream(stream))
    # int8 sums wrap in both.
    assert dst.read() == KINDS[kind](left, right).astype(name).tobytes()
    assert src.read() == right.tobytes()


def test_waits_its_turn_in_the_stream(stream):
    dst, src = (kit.Memory("device", 8, np.array([1, 2], np.int32).tobytes()) for _ in range(2))
    with kit.Gate(stream):
        call = kit.Call(acl.rt.reduce_async, dst.addr, src.addr, 8, SUM, TYPES["int32"], stream, 0)
        kit.ok(call.returned())
        assert dst.read() == src.read()
    kit.ok(acl.rt.synchronize_stream(stream))
    assert dst.read() == np.array([2, 4], np.int32).tobytes()


@pytest.mark.parametrize(
    ("kind", "type", "count", "code"),
    [
        (SUM, TYPES["int32"], 6, kit.PARAM_INVALID),
        (SUM, 12, 8, kit.NOT_SUPPORTED),
        (EQUAL, TYPES["int32"], 8, kit.NOT_SUPPORTED),
        (9, TYPES["int32"], 8, kit.INVALID_PARAM),
    ],
    ids=["half an element", "bool", "equal", "no kind"],
)
def test_refuses_what_it_cannot_compute(stream, kind, type, count, code):
    dst, src = kit.Memory("device", 8), kit.Memory("device", 8)
    kit.refused(code, acl.rt.reduce_async, dst.addr, src.addr, count, kind, type, stream, 0)
    kit.ok(acl.rt.synchronize_stream(stream))
    assert dst.is_poisoned()


def test_memory_for_task_schedulers_is_device_memory(stream):
    pointer = kit.ok(acl.rt.malloc_for_task_scheduler(100, 0, {}))
    host = kit.Memory("pinned", 100, kit.pattern(100))
    kit.ok(acl.rt.memcpy_async(pointer, 100, host.addr, 100, kit.H2D, stream))
    kit.ok(acl.rt.synchronize_stream(stream))
    back = kit.Memory("pinned", 100)
    kit.ok(acl.rt.memcpy(back.addr, 100, pointer, 100, kit.D2H))
    assert back.read() == kit.pattern(100)
    kit.ok(acl.rt.free(pointer))
