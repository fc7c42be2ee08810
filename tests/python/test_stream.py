"""Streams from Python: making, ending, waiting, asking, aborting."""

import pytest

import acl
import kit
from kit import Call, Gate, Memory, fails, ok, passes, refused

rt = acl.rt


def hand_over(stream, device, host):
    """A copy of page-locked memory, which only the stream's order completes."""
    ok(rt.memcpy_async(device.addr, device.size, host.addr, host.size, kit.H2D, stream))


@pytest.fixture
def copy(device):
    """Page-locked memory with something in it, and device memory with something else."""
    return Memory("device", 256), Memory("pinned", 256, kit.pattern(256))


def test_streams_are_different_and_never_0(device):
    streams = [ok(rt.create_stream()) for _ in range(32)]
    assert len(set(streams)) == 32 and 0 not in streams
    for stream in streams:
        ok(rt.destroy_stream(stream))


def test_a_stream_does_its_work_in_order(stream, copy):
    device, host = copy
    back = Memory("pinned", 256)
    with Gate(stream):
        hand_over(stream, device, host)
        ok(rt.memset_async(device.addr, 256, 7, 16, stream))
        ok(rt.memcpy_async(back.addr, 256, device.addr, 256, kit.D2H, stream))
        assert back.is_poisoned()
    ok(rt.synchronize_stream(stream))
    assert back.read() == bytes([7]) * 16 + kit.pattern(256)[16:]


def test_0_is_the_default_stream(copy):
    device, host = copy
    hand_over(0, device, host)
    ok(rt.synchronize_stream(0))
    assert device.read() == host.read()
    assert rt.stream_query(0) == (0, 0)


def test_synchronize_stream_waits_for_its_own_work_only(stream, copy):
    device, host = copy
    other = ok(rt.create_stream())
    with Gate(stream):
        hand_over(stream, device, host)
        assert Call(rt.synchronize_stream, other).returned() == 0
        call = Call(rt.synchronize_stream, stream).blocked()
        assert device.is_poisoned()
    assert call.join() == 0
    assert device.read() == host.read()
    ok(rt.destroy_stream(other))


def test_synchronize_stream_with_timeout_gives_up(stream, copy):
    with Gate(stream):
        hand_over(stream, *copy)
        refused(507046, rt.synchronize_stream_with_timeout, stream, 10)
        call = Call(rt.synchronize_stream_with_timeout, stream, -1).blocked()
    assert call.join() == 0
    ok(rt.synchronize_stream_with_timeout(stream, 10000))
    for timeout in (0, -2):
        refused(107000, rt.synchronize_stream_with_timeout, stream, timeout, naming=[f"timeout is {timeout}"])


def test_stream_query_tells_whether_work_is_left(stream):
    assert rt.stream_query(stream) == (kit.COMPLETE, 0)
    with Gate(stream):
        assert rt.stream_query(stream) == (kit.NOT_READY, 0)
    ok(rt.synchronize_stream(stream))
    assert rt.stream_query(stream) == (kit.COMPLETE, 0)


def test_an_error_of_the_work_is_told_once(stream):
    descriptor = Memory("device", ok(rt.get_memcpy_desc_size(kit.INNER)))
    ok(rt.memcpy_async_with_desc(descriptor.addr, kit.INNER, stream))
    refused(107000, rt.synchronize_stream, stream, naming=["aclrtMemcpyAsyncWithDesc"])
    ok(rt.synchronize_stream(stream))


def test_destroy_stream_waits(copy):
    device, host = copy
    stream = ok(rt.create_stream())
    with Gate(stream):
        hand_over(stream, device, host)
        call = Call(rt.destroy_stream, stream).blocked()
        assert device.is_poisoned()
    assert call.join() == 0
    assert device.read() == host.read()
    fails(107017, rt.synchronize_stream(stream))


def test_destroy_stream_force_drops_the_work(copy):
    device, host = copy
    stream = ok(rt.create_stream())
    with Gate(stream):
        hand_over(stream, device, host)
        assert Call(rt.destroy_stream_force, stream).returned() == 0
        fails(107017, rt.synchronize_stream(stream))
    ok(rt.synchronize_device())
    assert device.is_poisoned()


def test_stream_abort_drops_the_work_and_tells_who_waits(stream, copy):
    device, host = copy
    with Gate(stream):
        hand_over(stream, device, host)
        call = Call(rt.synchronize_stream, stream).blocked()
        ok(rt.stream_abort(stream))
        assert call.join() == 107023
    ok(rt.synchronize_stream(stream))
    assert device.is_poisoned()
    hand_over(stream, device, host)
    ok(rt.synchronize_stream(stream))
    assert device.read() == host.read(), "the stream can be used again"


def test_stream_abort_is_on_newer_products_only():
    program = """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        refused(207000, acl.rt.stream_abort, ok(acl.rt.create_stream()))
    """
    for soc in ("Ascend310P3", "Ascend910A", "Ascend310B1"):
        passes(program, env={"FERRY_SOC": soc})


@pytest.mark.parametrize("priority", [0, 7, 8, -1, 2**31, 2**32, -(2**63)])
@pytest.mark.parametrize("flag", [0, 1, 2, 3, 8, 0x80])
def test_streams_with_any_priority_and_flags_that_make_plain_streams_work(copy, priority, flag):
    device, host = copy
    stream = ok(rt.create_stream_with_config(priority, flag))
    hand_over(stream, device, host)
    ok(rt.synchronize_stream(stream))
    assert device.read() == host.read()
    ok(rt.destroy_stream(stream))


def test_synchronize_does_not_wait_for_a_persistent_stream(device):
    for flag in (4, 0x20):
        stream = ok(rt.create_stream_with_config(0, flag))
        with Gate(stream):
            assert Call(rt.synchronize_stream, stream).returned() == 0
        ok(rt.destroy_stream(stream))


def test_handles_that_are_no_streams_are_refused(device):
    gone = ok(rt.create_stream())
    ok(rt.destroy_stream(gone))
    event = ok(rt.create_event())
    for handle in (gone, event, 12345, 2**64 - 1):
        for call in (
            rt.destroy_stream,
            rt.destroy_stream_force,
            rt.synchronize_stream,
            lambda stream: rt.synchronize_stream_with_timeout(stream, 1),
            rt.stream_query,
            rt.stream_abort,
            lambda stream: rt.record_event(event, stream),
            lambda stream: rt.stream_wait_event(stream, event),
        ):
            refused(107017, call, handle, naming=[kit.address(handle)])
    ok(rt.destroy_event(event))


def test_the_default_stream_cannot_be_destroyed(device):
    for call in (rt.destroy_stream, rt.destroy_stream_force):
        refused(107000, call, 0, naming=["default stream"])


def test_streams_run_out():
    passes(
        """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        streams = [ok(acl.rt.create_stream()) for _ in range(511)]
        assert refused(207005, acl.rt.create_stream) == 0
        assert refused(207005, acl.rt.create_stream_with_config, 0, 0) == 0
        ok(acl.rt.destroy_stream(streams.pop()))
        ok(acl.rt.create_stream())
        """,
        env={"FERRY_SOC": "Ascend310B1"},
    )
