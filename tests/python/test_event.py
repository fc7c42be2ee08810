"""Events from Python. Three functions tell of an event, and the first of them has the opposite numbers of the others."""

import pytest

import acl
import kit
from kit import Call, Gate, Memory, ok, passes, refused

rt = acl.rt

# Flags.
SYNC, TIME_LINE, EXTERNAL, IPC = 0x1, 0x8, 0x20, 0x40

# query_event_status tells 0 not ready, 1 complete; query_event, query_event_wait_status and stream_query 0 complete, 1 not ready.
RECORDED, NOT_RECORDED = (1, 0), (0, 0)
DONE, NOT_DONE = (0, 0), (1, 0)

MAKERS = {
    "create_event": rt.create_event,
    "with_flag": lambda: rt.create_event_with_flag(SYNC),
    "with_time": lambda: rt.create_event_with_flag(SYNC | TIME_LINE),
    "ex": lambda: rt.create_event_ex_with_flag(SYNC),
}
EVERY = pytest.mark.parametrize("maker", MAKERS)
TIMED = pytest.mark.parametrize(
    "make", [rt.create_event, lambda: rt.create_event_with_flag(TIME_LINE), lambda: rt.create_event_ex_with_flag(TIME_LINE)]
)


@pytest.fixture
def event(device, maker):
    event = ok(MAKERS[maker]())
    yield event
    ok(rt.destroy_event(event))


@EVERY
def test_an_event_is_reached_when_the_work_before_it_is_done(event, maker, stream):
    with Gate(stream):
        ok(rt.record_event(event, stream))
        assert rt.query_event_status(event) == NOT_RECORDED
        if maker != "ex":
            assert rt.query_event(event) == NOT_DONE
        call = Call(rt.synchronize_event, event).blocked()
    assert call.join() == 0
    assert rt.query_event_status(event) == RECORDED
    if maker != "ex":
        assert rt.query_event(event) == DONE


@EVERY
def test_an_event_that_was_never_recorded(event, maker, stream):
    assert rt.query_event_status(event) == (RECORDED if maker == "ex" else NOT_RECORDED)
    assert Call(rt.synchronize_event, event).returned() == 0
    ok(rt.stream_wait_event(stream, event))
    assert Call(rt.synchronize_stream, stream).returned() == 0


@EVERY
def test_synchronize_event_with_timeout_gives_up(event, maker, stream):
    with Gate(stream):
        ok(rt.record_event(event, stream))
        refused(507047, rt.synchronize_event_with_timeout, event, 10)
        call = Call(rt.synchronize_event_with_timeout, event, -1).blocked()
    assert call.join() == 0
    ok(rt.synchronize_event_with_timeout(event, 10000))
    for timeout in (0, -2):
        refused(107000, rt.synchronize_event_with_timeout, event, timeout, naming=[f"timeout is {timeout}"])


@EVERY
def test_a_stream_waits_for_what_another_recorded(event, maker, stream):
    device, host = Memory("device", 64), Memory("pinned", 64, kit.pattern(64))
    back, waiting = Memory("pinned", 64), ok(rt.create_stream())
    with Gate(stream):
        ok(rt.memcpy_async(device.addr, 64, host.addr, 64, kit.H2D, stream))
        ok(rt.record_event(event, stream))
        ok(rt.stream_wait_event(waiting, event))
        ok(rt.memcpy_async(back.addr, 64, device.addr, 64, kit.D2H, waiting))
        kit.settle()
        assert rt.stream_query(waiting) == NOT_DONE and back.is_poisoned()
        if maker != "ex":
            assert rt.query_event_wait_status(event) == NOT_DONE
    ok(rt.synchronize_stream(waiting))
    assert back.read() == host.read()
    if maker != "ex":
        assert rt.query_event_wait_status(event) == DONE
    ok(rt.destroy_stream(waiting))


def test_wait_status_tells_of_the_waits_and_not_of_the_record(stream):
    event, waiting = ok(rt.create_event_with_flag(SYNC)), ok(rt.create_stream())
    assert rt.query_event(event) == NOT_DONE
    assert rt.query_event_wait_status(event) == DONE, "nobody waits"
    ok(rt.record_event(event, stream))
    ok(rt.synchronize_stream(stream))
    with Gate(waiting):
        ok(rt.stream_wait_event(waiting, event))
        assert rt.query_event(event) == DONE
        assert rt.query_event_wait_status(event) == NOT_DONE, "the stream has not got there yet"
    ok(rt.synchronize_stream(waiting))
    assert rt.query_event_wait_status(event) == DONE
    ok(rt.destroy_stream(waiting))
    ok(rt.destroy_event(event))


@EVERY
def test_a_wait_is_for_the_latest_record_before_it(event, maker, stream):
    waiting = ok(rt.create_stream())
    ok(rt.record_event(event, stream))
    ok(rt.stream_wait_event(waiting, event))
    with Gate(stream):
        ok(rt.record_event(event, stream))
        assert Call(rt.synchronize_stream, waiting).returned() == 0
        ok(rt.stream_wait_event(waiting, event))
        call = Call(rt.synchronize_stream, waiting).blocked()
    assert call.join() == 0
    ok(rt.destroy_stream(waiting))


def test_reset_event_takes_the_record_back(stream):
    event, waiting = ok(rt.create_event_with_flag(SYNC)), ok(rt.create_stream())
    ok(rt.record_event(event, stream))
    ok(rt.reset_event(event, stream))
    ok(rt.synchronize_stream(stream))
    assert rt.query_event_status(event) == NOT_RECORDED
    ok(rt.stream_wait_event(waiting, event))
    call = Call(rt.synchronize_stream, waiting).blocked()
    ok(rt.record_event(event, stream))
    assert call.join() == 0
    ok(rt.destroy_stream(waiting))
    ok(rt.destroy_event(event))


def test_kinds_of_events_refuse_what_they_are_not_for(stream):
    plain, timed = ok(rt.create_event()), ok(rt.create_event_with_flag(TIME_LINE))
    ex, ex_timed = ok(rt.create_event_ex_with_flag(SYNC)), ok(rt.create_event_ex_with_flag(TIME_LINE))
    for event in (timed, ex_timed):
        refused(107000, rt.stream_wait_event, stream, event, naming=["ACL_EVENT_SYNC"])
    for event in (ex, ex_timed):
        assert refused(107000, rt.query_event, event) == 0
        assert refused(107000, rt.query_event_wait_status, event) == 0
    for event in (plain, timed, ex, ex_timed):
        ok(rt.destroy_event(event))


def test_flags_that_cannot_be_combined_are_refused(device):
    for make in (rt.create_event_with_flag, rt.create_event_ex_with_flag):
        for flag in (SYNC | EXTERNAL, SYNC | IPC, 0x8000):
            assert refused(107000, make, flag, naming=[f"flag is {flag:#x}"]) == 0
        for flag in (SYNC, 0x2, TIME_LINE, SYNC | TIME_LINE, 0x10):
            ok(rt.destroy_event(ok(make(flag))))


@TIMED
def test_the_time_between_events_is_a_float_of_milliseconds(make, stream):
    start, end = ok(make()), ok(make())
    memory = Memory("device", 1 << 20)
    ok(rt.record_event(start, stream))
    with Gate(stream):
        ok(rt.memset_async(memory.addr, memory.size, 0, memory.size, stream))
        ok(rt.record_event(end, stream))
    ok(rt.synchronize_stream(stream))
    ms = ok(rt.event_elapsed_time(start, end))
    first, last = ok(rt.event_get_timestamp(start)), ok(rt.event_get_timestamp(end))
    assert type(ms) is float and ms > 0
    assert type(first) is int and last > first > 0
    # A GPU counts milliseconds since the first event in 24 bits.
    assert abs(ms * 1000 - (last - first)) < 2 + min(last * 4e-7, 50), "one tells microseconds, the other milliseconds"
    assert refused(107007, rt.event_elapsed_time, end, start, naming=[kit.address(start)]) == 0.0
    for event in (start, end):
        ok(rt.destroy_event(event))


@TIMED
def test_an_event_without_a_time_has_none_to_tell(make, stream):
    event, timeless = ok(make()), ok(rt.create_event_with_flag(SYNC))
    refused(107006, rt.event_get_timestamp, event, naming=["never recorded"])
    refused(107006, rt.event_elapsed_time, event, event)
    for each in (event, timeless):
        ok(rt.record_event(each, stream))
    ok(rt.synchronize_stream(stream))
    refused(107006, rt.event_get_timestamp, timeless, naming=["ACL_EVENT_TIME_LINE"])
    refused(107006, rt.event_elapsed_time, event, timeless)
    for each in (event, timeless):
        ok(rt.destroy_event(each))


def test_an_event_may_be_destroyed_while_a_stream_waits_for_it(stream):
    waiting, event = ok(rt.create_stream()), ok(rt.create_event())
    with Gate(stream):
        ok(rt.record_event(event, stream))
        ok(rt.stream_wait_event(waiting, event))
        ok(rt.destroy_event(event))
        call = Call(rt.synchronize_stream, waiting).blocked()
    assert call.join() == 0
    ok(rt.destroy_stream(waiting))


def test_handles_that_are_no_events_are_refused(stream):
    gone = ok(rt.create_event())
    ok(rt.destroy_event(gone))
    calls = (
        rt.destroy_event,
        lambda event: rt.record_event(event, stream),
        lambda event: rt.stream_wait_event(stream, event),
        lambda event: rt.reset_event(event, stream),
        rt.query_event,
        rt.query_event_status,
        rt.query_event_wait_status,
        rt.synchronize_event,
        lambda event: rt.synchronize_event_with_timeout(event, 1),
        lambda event: rt.event_elapsed_time(event, event),
        rt.event_get_timestamp,
    )
    for call in calls:
        for handle in (gone, stream, 12345):
            refused(107017, call, handle, naming=[kit.address(handle)])
        refused(100000, call, 0, naming=["NULL"])


def test_an_event_and_a_stream_of_different_devices_do_not_go_together(stream):
    ok(rt.set_device(1))
    event = ok(rt.create_event())
    other = ok(rt.create_stream())
    ok(rt.set_device(0))
    for call, arguments in ((rt.record_event, (event, stream)), (rt.stream_wait_event, (stream, event))):
        assert call(*arguments) != 0, "an event of another device"
    ok(rt.set_device(1))
    ok(rt.destroy_stream(other))
    ok(rt.destroy_event(event))
    ok(rt.set_device(0))


def test_synchronize_event_works_from_another_device(stream):
    event = ok(rt.create_event())
    with Gate(stream):
        ok(rt.record_event(event, stream))
        ok(rt.set_device(1))
        call = Call(rt.synchronize_event, event).blocked()
        ok(rt.set_device(0))
    assert call.join() == 0
    ok(rt.destroy_event(event))


def test_an_event_behind_dropped_work_completes(stream):
    event = ok(rt.create_event())
    with Gate(stream):
        ok(rt.record_event(event, stream))
        call = Call(rt.synchronize_event, event).blocked()
        ok(rt.stream_abort(stream))
        assert call.join() == 0
    assert rt.query_event_status(event)[1] == 0
    ok(rt.destroy_event(event))


def test_events_run_out():
    passes(
        """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        codes = []
        for _ in range(1024):
            event, ret = acl.rt.create_event()
            codes.append(ret or acl.rt.record_event(event, stream))
        assert codes == [0] * 1023 + [207007], codes[-3:]
        """,
        env={"FERRY_SOC": "Ascend310P3"},
    )
