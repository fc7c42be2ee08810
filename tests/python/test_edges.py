"""What programs do at the edges: zero bytes at the end of a buffer, and what FERRY_STRICT takes back."""

import pytest

import acl
from batches import Batch
from kit import D2H, H2D, INNER, INVALID_PARAM, NO_PIECE, Memory, ok, passes, pattern, refused

SIZE = 4096


def ends():
    """One past the last byte of each home, with the memory; and addresses of nobody."""
    memories = [Memory(home, SIZE) for home in ("device", "pinned", "plain")]
    found = [(memory.home, memory.addr + SIZE + (64 if memory.home == "device" else 0), memory) for memory in memories]
    return [*found, ("nowhere", 64, None), ("the last address", 2**64 - 64, None)]


def test_zero_bytes_at_the_end_of_a_buffer_are_success(stream):
    there, host = Memory("device", SIZE), Memory("pinned", SIZE)
    desc = Memory("device", 4096)
    for name, end, _memory in ends():
        for dst, src, kind in ((end, host.addr, H2D), (host.addr, end, D2H), (end, there.addr, INNER)):
            ok(acl.rt.memcpy(dst, 0, src, 0, kind))
            ok(acl.rt.memcpy_async(dst, 0, src, 0, kind, stream))
            ok(acl.rt.memcpy_async_with_condition(dst, 0, src, 0, 4, stream))
            ok(acl.rt.memcpy2d(dst, 8, src, 8, 8, 0, H2D))
            ok(acl.rt.memcpy2d_async(dst, 8, src, 8, 0, 8, D2H, stream))
            ok(acl.rt.reduce_async(dst, src, 0, 10, 0, stream, 0))
            ok(acl.rt.set_memcpy_desc(desc.addr, INNER, src, dst, 0, 0))
            ok(acl.rt.memcpy_async_with_desc(desc.addr, INNER, stream))
        ok(acl.rt.memset(end, 0, 7, 0))
        ok(acl.rt.memset_async(end, 0, 7, 0, stream))
        ok(acl.rt.synchronize_stream(stream))
        assert there.is_poisoned() and host.is_poisoned(), name


def test_zero_bytes_of_null_are_refused_as_ever(stream):
    host = Memory("pinned", SIZE)
    refused(INVALID_PARAM, acl.rt.memcpy, 0, 0, host.addr, 0, H2D)
    refused(INVALID_PARAM, acl.rt.memcpy_async, host.addr, 0, 0, 0, D2H, stream)
    refused(INVALID_PARAM, acl.rt.memset, 0, 0, 0, 0)


def test_a_batch_with_an_empty_piece_at_the_end_does_the_others(stream):
    to, source = Memory("device", SIZE), Memory("pinned", SIZE, pattern(SIZE))
    for name, end, _memory in ends():
        for index in (0, 1, 2):
            to.fill(0)
            batch = Batch(to, source, stream, [(0, 0, 1000), (1000, 1000, SIZE - 1000)])
            batch.dsts.insert(index, end)
            batch.srcs.insert(index, source.addr + SIZE)
            batch.sizes.insert(index, 0)
            batch.dest_maxs.insert(index, 0)
            assert batch(num_batches=3) == (NO_PIECE, 0), f"{name}: {acl.get_recent_err_msg()}"
            ok(acl.rt.synchronize_stream(stream))
            assert to.read() == pattern(SIZE), name


# What public programs do, and the code that each answers where the library is strict.
TOLERATED = """
    import sys
    import acl, kit

    def answers(want, result):
        kit.fails(want if sys.argv[1] == "strict" else 0, result)

    kit.ok(acl.rt.set_device(0))
    stream = kit.ok(acl.rt.create_stream())
    answers(107000, acl.rt.create_event_with_flag(0))
    answers(107000, acl.rt.create_event_ex_with_flag(0))
    for event in (acl.rt.create_event(), acl.rt.create_event_with_flag(8), acl.rt.create_event_ex_with_flag(1)):
        answers(107000, acl.rt.reset_event(kit.ok(event), stream))
    answers(107000, acl.get_version_str("Runtime"))
    answers(107000, acl.rt.device_enable_peer_access(0, 0))
    kit.ok(acl.rt.synchronize_stream(stream))
    print("done")
"""


@pytest.mark.parametrize("env, way", [({}, "tolerant"), ({"FERRY_STRICT": "0"}, "tolerant"), ({"FERRY_STRICT": "1"}, "strict")])
def test_what_public_programs_do_works_unless_strict(env, way):
    assert passes(TOLERATED, way, env=env) == "done\n"
