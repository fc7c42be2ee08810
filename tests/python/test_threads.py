"""Threads: calls that wait let other Python threads run, many copy at once, and acl.util's own threads."""

import threading

import numpy as np
import pytest

import acl
import kit
from kit import D2H, H2D, LIMIT, PINNED, Call, Gate, Memory, fails, ok

# Calls that wait behind a held stream. Each gets the stream and what `around` made, and is let go by the test's own thread,
# which can only do that if the call does not hold the interpreter.
COUNT = 8192


WAITS = {
    "synchronize_stream": lambda stream, _: acl.rt.synchronize_stream(stream),
    "synchronize_stream_with_timeout": lambda stream, _: acl.rt.synchronize_stream_with_timeout(stream, -1),
    "synchronize_device": lambda stream, _: acl.rt.synchronize_device(),
    "synchronize_device_with_timeout": lambda stream, _: acl.rt.synchronize_device_with_timeout(1000 * LIMIT),
    "synchronize_event": lambda stream, at: acl.rt.synchronize_event(at.event),
    "synchronize_event_with_timeout": lambda stream, at: acl.rt.synchronize_event_with_timeout(at.event, 1000 * LIMIT),
    "memcpy_async": lambda stream, at: acl.rt.memcpy_async(at.plain, COUNT, at.device, COUNT, D2H, stream),
    "memcpy_async_with_condition": lambda stream, at: acl.rt.memcpy_async_with_condition(
        at.plain, COUNT, at.device, COUNT, D2H, stream
    ),
    "memcpy2d_async": lambda stream, at: acl.rt.memcpy2d_async(at.plain, 64, at.device, 64, 64, 128, D2H, stream),
    "memcpy_batch_async": lambda stream, at: acl.rt.memcpy_batch_async(
        [at.device], [COUNT], [at.plain], [COUNT], 1, at.attrs, [0], 1, stream
    )[1],
    "destroy_stream": lambda stream, _: acl.rt.destroy_stream(stream),
}


class Around:
    """What the calls use: memory of both kinds, and an event behind the gate."""

    def __init__(self, stream):
        self.memory = Memory("device", COUNT, b"d" * COUNT), Memory("plain", COUNT)
        self.device, self.plain = (memory.addr for memory in self.memory)
        self.attrs = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
        self.event = ok(acl.rt.create_event_with_flag(1))
        ok(acl.rt.record_event(self.event, stream))


# proves: R23
@pytest.mark.parametrize("name", WAITS)
def test_a_call_that_waits_lets_other_threads_run(device, name):
    stream = ok(acl.rt.create_stream())
    with Gate(stream) as gate:
        around = Around(stream)
        call = Call(WAITS[name], stream, around).blocked()
        # Python runs here, while the call waits: count, and then let the call go on.
        assert sum(range(1000)) == 499500
        gate.open()
        ok(call.join())
    ok(acl.rt.destroy_event(around.event))
    if name != "destroy_stream":
        ok(acl.rt.destroy_stream(stream))


def test_process_report_lets_other_threads_run(stream):
    ran, ready = [], threading.Event()

    def serve():
        ready.wait()
        return acl.rt.process_report(-1)

    call = Call(serve).blocked()
    ok(acl.rt.subscribe_report(call.thread.ident, stream))
    ready.set()
    # It is in process_report, or on its way there: the callback is launched from here either way.
    kit.settle()
    ok(acl.rt.launch_callback(ran.append, ["ran"], 1, stream))
    ok(call.join())
    assert ran == [["ran"]]


@pytest.mark.parametrize("name", ["destroy_context", "reset_device", "reset_device_force", "finalize"])
def test_ending_things_that_work_lets_other_threads_run(name):
    # In a process of its own: they end what other tests use.
    kit.passes(
        """
        import sys, threading, acl, kit
        from kit import ok
        name = sys.argv[1]
        ok(acl.init())
        ok(acl.rt.set_device(0))
        primary = ok(acl.rt.get_context())
        context = ok(acl.rt.create_context(0)) if name == "destroy_context" else primary
        ok(acl.rt.set_context(context))
        stream = ok(acl.rt.create_stream())
        # The stream is held by a callback, which needs nothing that goes away with the device.
        started, go = threading.Event(), threading.Event()
        def serve():
            ready.wait()
            ok(acl.rt.process_report(-1))
        ready = threading.Event()
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        ok(acl.rt.subscribe_report(server.ident, stream))
        ready.set()
        ok(acl.rt.launch_callback(lambda _: (started.set(), go.wait()), [], 1, stream))
        assert started.wait(30)
        call = {
            "destroy_context": lambda: acl.rt.destroy_context(context),
            "reset_device": lambda: acl.rt.reset_device(0),
            "reset_device_force": lambda: acl.rt.reset_device_force(0),
            "finalize": acl.finalize,
        }[name]
        waits = kit.Call(call).blocked()
        go.set()
        ok(waits.join())
        server.join(30)
        assert not server.is_alive()
        """,
        name,
    )


def test_many_threads_copy_at_once(device):
    context, size, rounds = ok(acl.rt.get_context()), 1 << 16, 20
    errors, together = [], threading.Barrier(8)

    def work(number):
        try:
            ok(acl.rt.set_context(context))
            stream = ok(acl.rt.create_stream())
            rng = np.random.default_rng(number)
            memory = Memory("device", size)
            pinned = [Memory("pinned", size), Memory("pinned", size)]
            together.wait(LIMIT)
            for _ in range(rounds):
                data = rng.integers(0, 256, size, dtype=np.uint8)
                pinned[0].write(data.tobytes())
                ok(acl.rt.memcpy_async(memory.addr, size, pinned[0].addr, size, H2D, stream))
                ok(acl.rt.memcpy_async(pinned[1].addr, size, memory.addr, size, D2H, stream))
                ok(acl.rt.synchronize_stream(stream))
                assert acl.util.ptr_to_bytes(pinned[1].addr, size) == data.tobytes()
                back = np.empty_like(data)
                ok(acl.rt.memcpy(back.ctypes.data, size, memory.addr, size, D2H))
                assert (back == data).all()
            ok(acl.rt.destroy_stream(stream))
        except BaseException as error:
            errors.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), "a thread never came back"
    assert errors == []


def test_threads_share_a_stream(stream):
    # Each thread's bytes go to a place of their own; the stream is one.
    context, size, count = ok(acl.rt.get_context()), 4096, 8
    memory = Memory("device", size * count)
    sources = [Memory("pinned", size, bytes([number + 1]) * size) for number in range(count)]

    def submit(number):
        ok(acl.rt.set_context(context))
        for _ in range(50):
            ok(acl.rt.memcpy_async(memory.addr + number * size, size, sources[number].addr, size, H2D, stream))

    calls = [Call(submit, number) for number in range(count)]
    for call in calls:
        call.join()
    ok(acl.rt.synchronize_stream(stream))
    assert memory.read() == b"".join(bytes([number + 1]) * size for number in range(count))


def test_a_thread_of_ours_starts_without_a_context(device):
    context, seen = ok(acl.rt.get_context()), []

    def body(items):
        seen.append(items)
        seen.append(acl.rt.get_device())
        seen.append(acl.rt.get_context())
        seen.append(acl.rt.create_stream())
        seen.append(acl.rt.set_context(context))
        seen.append(acl.rt.get_device())

    items = ["an item"]
    thread = ok(acl.util.start_thread(body, items))
    assert type(thread) is int and thread != 0
    ok(acl.util.stop_thread(thread))
    assert seen[0] is items
    assert [fails(kit.NO_CONTEXT, result) for result in seen[1:4]] == [0, 0, 0]
    assert seen[4:] == [0, (0, 0)]


def test_the_id_of_a_thread_is_the_one_that_it_has_itself(device):
    seen = []
    thread = ok(acl.util.start_thread(lambda items: items.append(threading.get_ident()), seen))
    ok(acl.util.stop_thread(thread))
    assert seen == [thread]


def test_stop_thread_waits_for_the_end_and_lets_others_run(device):
    go, ended = threading.Event(), []

    def body(items):
        go.wait(LIMIT)
        items.append("ended")

    thread = ok(acl.util.start_thread(body, ended))
    call = Call(acl.util.stop_thread, thread).blocked()
    assert ended == []
    go.set()
    ok(call.join())
    assert ended == ["ended"]


def test_stop_thread_takes_threads_of_ours_that_were_not_waited_for(device):
    thread = ok(acl.util.start_thread(len, []))
    ok(acl.util.stop_thread(thread))
    kit.refused(kit.PARAM_INVALID, acl.util.stop_thread, thread, naming=[str(thread), "start_thread"])
    kit.refused(kit.PARAM_INVALID, acl.util.stop_thread, 12345, naming=["12345"])
    kit.refused(kit.PARAM_INVALID, acl.util.stop_thread, 0)
    kit.refused(kit.PARAM_INVALID, acl.util.stop_thread, threading.get_ident())
    kit.refused(kit.PARAM_INVALID, acl.util.stop_thread, -1, naming=["thr_id", "-1"])

    other = threading.Thread(target=len, args=[[]])
    other.start()
    fails(kit.PARAM_INVALID, acl.util.stop_thread(other.ident))
    other.join()


def test_a_thread_cannot_wait_for_itself(device):
    said, go = [], threading.Event()

    def body(items):
        # Until stop_thread knows its id.
        go.wait(LIMIT)
        items.append(acl.util.stop_thread(threading.get_ident()))
        items.append(acl.get_recent_err_msg())

    thread = ok(acl.util.start_thread(body, said))
    go.set()
    ok(acl.util.stop_thread(thread))
    assert said[0] == kit.PARAM_INVALID and "itself" in said[1]


def test_two_may_wait_for_one_thread(device):
    go = threading.Event()
    thread = ok(acl.util.start_thread(lambda _: go.wait(LIMIT), []))
    calls = [Call(acl.util.stop_thread, thread).blocked() for _ in range(2)]
    go.set()
    assert [call.join() for call in calls] == [0, 0]


def test_an_exception_of_a_thread_is_shown(device, monkeypatch):
    shown = []
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append((args.exc_type, str(args.exc_value))))

    def body(_):
        raise RuntimeError("on purpose")

    ok(acl.util.stop_thread(ok(acl.util.start_thread(body, []))))
    assert shown == [(RuntimeError, "on purpose")]


def test_threads_that_ended_leave_nothing_behind(device):
    before = threading.active_count()
    for _ in range(50):
        ok(acl.util.stop_thread(ok(acl.util.start_thread(len, []))))
    assert threading.active_count() == before


def test_copies_into_registered_memory_of_an_array_from_a_thread(stream):
    context, size = ok(acl.rt.get_context()), 1 << 20
    address, owner = kit.aligned(size)
    ok(acl.rt.host_register_v2(address, size, PINNED))
    memory = Memory("device", size, b"x" * size)

    def body(items):
        items.append(acl.rt.set_context(context))
        items.append(acl.rt.memcpy_async(address, size, memory.addr, size, D2H, stream))
        items.append(acl.rt.synchronize_stream(stream))

    codes = []
    ok(acl.util.stop_thread(ok(acl.util.start_thread(body, codes))))
    assert codes == [0, 0, 0]
    assert acl.util.ptr_to_bytes(address, size) == b"x" * size
    ok(acl.rt.host_unregister(address))
    del owner
