"""acl.rt.get_memcpy_desc_size, set_memcpy_desc and memcpy_async_with_desc: copies whose addresses are read when they run."""

import pytest

import acl
from kit import (
    D2D,
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
    fails,
    message,
    ok,
    passes,
    pattern,
    refused,
    settle,
)

SIZE = 16 * 1024
BAD_KINDS = [H2H, H2D, 2, D2D, DEFAULT, 5, INTER, 8, -1]


@pytest.fixture
def desc(device):
    """A descriptor's memory, not set."""
    return Memory("device", ok(acl.rt.get_memcpy_desc_size(INNER)))


# proves: R71 R72 R73 R76 R77 R78
def test_the_documented_order_of_use(stream):
    size, ret = acl.rt.get_memcpy_desc_size(6)
    assert ret == 0 and type(size) is int and size > 0
    desc = ok(acl.rt.malloc(size, 0))
    to, source = Memory("device", SIZE), Memory("device", SIZE, pattern(SIZE))
    # The source comes before the destination, and the descriptor's address comes back.
    assert acl.rt.set_memcpy_desc(desc, 6, source.addr, to.addr, SIZE - 7, 0) == (desc, 0)
    assert to.is_poisoned()
    assert acl.rt.memcpy_async_with_desc(desc, 6, stream) == 0
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == pattern(SIZE)[:-7] + bytes([POISON]) * 7
    assert source.read() == pattern(SIZE)
    # It may be used again, and what the source holds then is what is copied.
    source.write(pattern(SIZE, 1))
    ok(acl.rt.memcpy_async_with_desc(desc, 6, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert to.read(SIZE - 7) == pattern(SIZE, 1)[:-7]
    ok(acl.rt.free(desc))


# proves: R71
def test_the_descriptor_is_read_when_the_copy_runs(stream, desc):
    old, new = Memory("device", SIZE, pattern(SIZE, 1)), Memory("device", SIZE, pattern(SIZE, 2))
    wrong, to = Memory("device", SIZE), Memory("device", SIZE)
    ok(acl.rt.set_memcpy_desc(desc.addr, INNER, old.addr, wrong.addr, SIZE, 0))
    with Gate(stream) as gate:
        ok(Call(acl.rt.memcpy_async_with_desc, desc.addr, INNER, stream).returned())
        ok(Call(acl.rt.set_memcpy_desc, desc.addr, INNER, new.addr, to.addr, SIZE, 0).returned())
        settle()
        assert to.is_poisoned()
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
    assert wrong.is_poisoned()
    assert to.read() == pattern(SIZE, 2)


# proves: R74
def test_a_descriptor_is_bytes_that_may_be_copied(stream, desc):
    second = Memory("device", desc.size)
    to, source = Memory("device", SIZE), Memory("device", SIZE, pattern(SIZE))
    ok(acl.rt.set_memcpy_desc(desc.addr, INNER, source.addr, to.addr, SIZE, 0))
    ok(acl.rt.memcpy_async(second.addr, second.size, desc.addr, desc.size, D2D, stream))
    ok(acl.rt.memcpy_async_with_desc(second.addr, INNER, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert to.read() == pattern(SIZE)


# proves: R74
@pytest.mark.parametrize("byte", [0x00, 0xA5, 0xFF])
def test_a_descriptor_that_was_never_set_fails_when_it_runs(stream, desc, byte):
    desc.fill(byte)
    ok(acl.rt.memcpy_async_with_desc(desc.addr, INNER, stream))
    message()
    fails(PARAM_INVALID, acl.rt.synchronize_stream(stream))
    assert f"{desc.addr:#x}" in message()
    ok(acl.rt.synchronize_stream(stream))


def test_nothing_to_copy(stream, desc):
    to, source = Memory("device", 64), Memory("device", 64, pattern(64))
    ok(acl.rt.set_memcpy_desc(desc.addr, INNER, source.addr, to.addr, 0, 0))
    ok(acl.rt.memcpy_async_with_desc(desc.addr, INNER, stream))
    ok(acl.rt.synchronize_stream(stream))
    assert to.is_poisoned()


# proves: R75
@pytest.mark.parametrize("kind", BAD_KINDS)
def test_other_kinds_are_refused(stream, desc, kind):
    memory = Memory("device", 64)
    words = ("kind",)
    assert refused(INVALID_PARAM, acl.rt.get_memcpy_desc_size, kind, naming=words) == 0
    args = (desc.addr, kind, memory.addr, memory.addr, 64, 0)
    assert refused(INVALID_PARAM, acl.rt.set_memcpy_desc, *args, naming=words) == desc.addr
    refused(INVALID_PARAM, acl.rt.memcpy_async_with_desc, desc.addr, kind, stream, naming=words)
    assert desc.is_poisoned()
    ok(acl.rt.synchronize_stream(stream))


# proves: R72 R73
def test_what_cannot_be_set_is_refused_and_the_descriptor_stays(stream, desc):
    to, source = Memory("device", SIZE), Memory("device", SIZE)
    host, plain, gone = Memory("pinned", SIZE), Memory("plain", SIZE), Memory("device", SIZE)
    freed = gone.addr
    gone.free()
    d, s = to.addr, source.addr
    for code, at, src, dst, count, config in (
        (INVALID_PARAM, 0, s, d, SIZE, 0),
        (INVALID_PARAM, desc.addr, 0, d, SIZE, 0),
        (INVALID_PARAM, desc.addr, s, 0, SIZE, 0),
        (PARAM_INVALID, desc.addr, host.addr, d, SIZE, 0),
        (PARAM_INVALID, desc.addr, s, plain.addr, SIZE, 0),
        (PARAM_INVALID, desc.addr, freed, d, SIZE, 0),
        (PARAM_INVALID, desc.addr, s, d, 2 * SIZE, 0),
        (PARAM_INVALID, desc.addr, s, d, 2**64 - 1, 0),
        (PARAM_INVALID, host.addr, s, d, SIZE, 0),
        (PARAM_INVALID, plain.addr, s, d, SIZE, 0),
        (PARAM_INVALID, freed, s, d, SIZE, 0),
        (PARAM_INVALID, 0xDEADBEEFDEADBEEF, s, d, SIZE, 0),
    ):
        assert refused(code, acl.rt.set_memcpy_desc, at, INNER, src, dst, count, config) == at
    for code, at in (
        (INVALID_PARAM, 0),
        (PARAM_INVALID, host.addr),
        (PARAM_INVALID, plain.addr),
        (PARAM_INVALID, freed),
        (PARAM_INVALID, 0xDEADBEEFDEADBEEF),
    ):
        refused(code, acl.rt.memcpy_async_with_desc, at, INNER, stream)
    ok(acl.rt.synchronize_stream(stream))
    assert all(memory.is_poisoned() for memory in (desc, to, source, host, plain))


# proves: R76
def test_bad_streams_are_refused(stream, desc):
    to, source = Memory("device", 64), Memory("device", 64)
    ok(acl.rt.set_memcpy_desc(desc.addr, INNER, source.addr, to.addr, 64, 0))
    gone = ok(acl.rt.create_stream())
    ok(acl.rt.destroy_stream(gone))
    for bad in (gone, 12345, desc.addr):
        refused(INVALID_HANDLE, acl.rt.memcpy_async_with_desc, desc.addr, INNER, bad, naming=(f"{bad:#x}",))
    here, other = ok(acl.rt.get_context()), ok(acl.rt.create_context(0))
    refused(STREAM_CONTEXT, acl.rt.memcpy_async_with_desc, desc.addr, INNER, stream)
    ok(acl.rt.destroy_context(other))
    ok(acl.rt.set_context(here))


def test_a_thread_without_a_context(desc):
    results = []

    def body(_):
        results.append(acl.rt.set_memcpy_desc(desc.addr, INNER, desc.addr, desc.addr, 8, 0)[1])
        results.append(acl.rt.memcpy_async_with_desc(desc.addr, INNER, 0))

    ok(acl.util.stop_thread(ok(acl.util.start_thread(body, []))))
    assert results == [NO_CONTEXT] * 2


PROGRAM = """
    import sys
    import acl
    from kit import *

    want = int(sys.argv[1])
    ok(acl.rt.set_device(0))
    size, ret = acl.rt.get_memcpy_desc_size(INNER)
    assert ret == want and (size > 0) == (want == 0), (size, ret)
    desc, to, source = Memory("device", 256), Memory("device", 64), Memory("device", 64, pattern(64))
    fails(want, acl.rt.set_memcpy_desc(desc.addr, INNER, source.addr, to.addr, 64, 0))
    fails(want, acl.rt.memcpy_async_with_desc(desc.addr, INNER, 0))
    ok(acl.rt.synchronize_stream(0))
    assert to.is_poisoned() if want else to.read() == pattern(64)
    print("done")
"""


# proves: R78
@pytest.mark.parametrize("soc, form, code", [
    ("Ascend910B1", "ep", 0),
    ("Ascend910_9391", "ep", 0),
    ("Ascend950PR_9599", "ep", 0),
    ("Ascend310B1", "ep", 0),
    ("Ascend310B1", "rc", 0),
    ("Ascend310P3", "ep", NOT_SUPPORTED),
    ("Ascend310P3", "ctrlcpu", NOT_SUPPORTED),
    ("Ascend910A", "ep", NOT_SUPPORTED),
])
def test_products_and_forms(soc, form, code):
    assert passes(PROGRAM, str(code), env={"FERRY_SOC": soc, "FERRY_FORM": form}) == "done\n"
