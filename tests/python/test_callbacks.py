"""Callbacks: subscribe_report, launch_callback, process_report and unsubscribe_report."""

import ctypes
import gc
import queue
import sys
import threading
import weakref

import pytest

import acl
import kit
from kit import D2H, H2D, LIMIT, Call, Gate, Memory, fails, ok

NO_CALLBACK_THREAD = 107015
NOT_SUBSCRIBED = 107012
WRONG_SUBSCRIPTION = 107011
REPEATED = 100033
TIME_IS_UP = 507012


class Served:
    """A stream whose callbacks a thread runs, started by acl.util.start_thread or as a threading.Thread."""

    def __init__(self, by):
        self.stream = ok(acl.rt.create_stream())
        self.context, self.raised, self.by = ok(acl.rt.get_context()), queue.SimpleQueue(), by
        ready = threading.Event()

        def serve(_):
            ok(acl.rt.set_context(self.context))
            ready.wait(LIMIT)
            while True:
                try:
                    if acl.rt.process_report(-1) != 0:
                        return
                except BaseException as error:
                    self.raised.put(error)

        if by == "acl":
            self.id = ok(acl.util.start_thread(serve, []))
        else:
            self.thread = threading.Thread(target=serve, args=[None], daemon=True)
            self.thread.start()
            self.id = self.thread.ident
        ok(acl.rt.subscribe_report(self.id, self.stream))
        ready.set()

    def launch(self, function, items, block=1):
        ok(acl.rt.launch_callback(function, items, block, self.stream))

    def finish(self):
        """Waits until all callbacks launched so far have run."""
        done = threading.Event()
        self.launch(lambda _: done.set(), [])
        assert done.wait(LIMIT), "the callbacks never ran"
        ok(acl.rt.synchronize_stream(self.stream))

    def close(self):
        if self.stream == 0:
            return
        ok(acl.rt.unsubscribe_report(self.id, self.stream))
        if self.by == "acl":
            ok(acl.util.stop_thread(self.id))
        else:
            self.thread.join(LIMIT)
            assert not self.thread.is_alive()
        ok(acl.rt.destroy_stream(self.stream))
        self.stream = 0


@pytest.fixture(params=["acl", "threading"])
def served(device, request):
    served = Served(request.param)
    yield served
    served.close()


@pytest.fixture
def unraisable(monkeypatch):
    """What sys.unraisablehook was given: type, text and function."""
    shown = []
    hook = lambda args: shown.append((args.exc_type, str(args.exc_value), args.object))  # noqa: E731
    monkeypatch.setattr(sys, "unraisablehook", hook)
    return shown


def test_callbacks_run_in_order_in_their_thread_with_their_list(served):
    ran = []
    lists = [[number] for number in range(50)]
    for number, items in enumerate(lists):
        served.launch(lambda items: ran.append((items, threading.get_ident())), items, number % 2)
    served.finish()
    assert [items for items, _ in ran] == lists
    assert all(given is items for (given, _), items in zip(ran, lists))
    assert {thread for _, thread in ran} == {served.id}


def test_the_list_is_read_when_the_callback_runs(served):
    ran, items = [], [1]
    with Gate(served.stream):
        served.launch(lambda items: ran.append(list(items)), items)
        items.append(2)
    served.finish()
    assert ran == [[1, 2]]


def test_any_callable_will_do(served):
    class Callable:
        def __call__(self, items):
            items.append("called")

        def method(self, items):
            items.append("method")

    first, second, third = [], [], []
    served.launch(Callable(), first)
    served.launch(Callable().method, second)
    served.launch(third.append, third)
    served.finish()
    assert (first, second) == (["called"], ["method"])
    assert len(third) == 1 and third[0] is third
    third.clear()


def test_what_comes_behind_a_blocking_callback_waits_for_it(served):
    started, go = threading.Event(), threading.Event()
    served.launch(lambda _: (started.set(), go.wait(LIMIT)), [], 1)
    assert started.wait(LIMIT)
    call = Call(acl.rt.synchronize_stream, served.stream).blocked()
    assert acl.rt.stream_query(served.stream) == (kit.NOT_READY, 0)
    go.set()
    ok(call.join())


def test_what_comes_behind_the_other_kind_does_not_wait(served):
    started, go = threading.Event(), threading.Event()
    served.launch(lambda _: (started.set(), go.wait(LIMIT)), [], 0)
    assert started.wait(LIMIT)
    ok(Call(acl.rt.synchronize_stream, served.stream).returned())
    go.set()
    served.finish()


def test_a_callback_runs_behind_the_copies_in_front_of_it(served):
    size, seen = 4096, []
    host, device, back = Memory("pinned", size, b"a" * size), Memory("device", size), Memory("pinned", size)
    with Gate(served.stream):
        ok(acl.rt.memcpy_async(device.addr, size, host.addr, size, H2D, served.stream))
        ok(acl.rt.memcpy_async(back.addr, size, device.addr, size, D2H, served.stream))
        served.launch(lambda _: seen.append(acl.util.ptr_to_bytes(back.addr, size)), [])
        # It changes what the copy behind it reads.
        served.launch(lambda _: host.write(b"b" * size), [], 1)
        ok(acl.rt.memcpy_async(device.addr, size, host.addr, size, H2D, served.stream))
        kit.settle()
        assert seen == []
    served.finish()
    assert seen == [b"a" * size]
    assert device.read() == b"b" * size


def test_an_exception_is_shown_and_the_stream_goes_on(served, unraisable):
    ran = []

    def wrong(items):
        raise ValueError(f"on purpose {items}")

    for block in 0, 1:
        served.launch(wrong, [block], block)
        served.launch(ran.append, [block], block)
    served.finish()
    assert unraisable == [(ValueError, f"on purpose [{block}]", wrong) for block in (0, 1)]
    assert ran == [[0], [1]]
    served.close()
    assert served.raised.empty()


def test_an_exception_is_written_to_stderr_by_itself():
    done = kit.run_python(
        """
        import threading, acl
        from kit import ok
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        ok(acl.rt.subscribe_report(threading.get_ident(), stream))
        def wrong(_):
            raise ValueError("on purpose")
        ok(acl.rt.launch_callback(wrong, [], 1, stream))
        ok(acl.rt.process_report(-1))
        ok(acl.rt.synchronize_stream(stream))
        """
    )
    assert done.returncode == 0
    assert "ValueError: on purpose" in done.stderr and "in wrong" in done.stderr


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_thread_comes_out_of_process_report(served, unraisable, kind):
    ran, what = [], kind("on purpose")

    def wrong(_):
        raise what

    served.launch(wrong, [], 1)
    served.launch(ran.append, [], 1)
    served.finish()
    # Raised when process_report comes back, which may be behind the callbacks that were due.
    assert served.raised.get(timeout=LIMIT) is what
    assert (ran, unraisable) == ([[]], [])


def test_of_two_that_end_a_thread_one_is_raised_and_one_shown(stream, unraisable):
    first, second = KeyboardInterrupt("first"), SystemExit("second")

    def wrong(items):
        raise items[0]

    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    for what in first, second:
        ok(acl.rt.launch_callback(wrong, [what], 0, stream))
    ok(acl.rt.synchronize_stream(stream))
    kit.settle()
    with pytest.raises(KeyboardInterrupt, match="first"):
        acl.rt.process_report(1000 * LIMIT)
    assert unraisable == [(SystemExit, "second", wrong)]
    ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))


def test_c_code_may_process_reports_too(stream, unraisable):
    # The library that the process has goes by its name; ctypes lets go of the interpreter.
    library, me, ran = ctypes.CDLL("libascendcl.so"), threading.get_ident(), []

    def wrong(items):
        raise items[0]

    ok(acl.rt.subscribe_report(me, stream))
    ok(acl.rt.launch_callback(ran.append, [1], 1, stream))
    ok(library.aclrtProcessReport(-1))
    assert ran == [[1]]
    for kind in ValueError, KeyboardInterrupt, SystemExit:
        ok(acl.rt.launch_callback(wrong, [kind("on purpose")], 1, stream))
        ok(library.aclrtProcessReport(-1))
        assert unraisable.pop() == (kind, "on purpose", wrong)
    # Nothing is left for whoever comes next.
    ok(acl.rt.launch_callback(ran.append, [2], 1, stream))
    ok(acl.rt.process_report(1000 * LIMIT))
    assert ran == [[1], [2]]
    ok(acl.rt.unsubscribe_report(me, stream))


def test_sys_exit_in_a_callback_of_the_main_thread_ends_the_program():
    done = kit.run_python(
        """
        import sys, threading, acl
        from kit import ok
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        ok(acl.rt.subscribe_report(threading.get_ident(), stream))
        ok(acl.rt.launch_callback(lambda _: sys.exit(4), [], 1, stream))
        acl.rt.process_report(-1)
        print("came back")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (4, "", "")


def test_a_callback_may_call_acl(served):
    size, seen = 4096, []

    def callback(_):
        seen.append(ok(acl.rt.get_device()))
        host, device = Memory("plain", size, b"c" * size), Memory("device", size)
        other = ok(acl.rt.create_stream())
        ok(acl.rt.memcpy_async(device.addr, size, host.addr, size, H2D, other))
        ok(acl.rt.synchronize_stream(other))
        ok(acl.rt.destroy_stream(other))
        seen.append(device.read() == b"c" * size)
        # More for this very stream: it waits for this callback, so it is not waited for here.
        served.launch(seen.append, ["launched from a callback"])

    served.launch(callback, [], 1)
    served.finish()
    served.finish()
    assert seen == [0, True, ["launched from a callback"]]


def test_the_thread_that_launches_may_be_the_one_that_runs(stream):
    ran = []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    ok(acl.rt.launch_callback(ran.append, [1], 1, stream))
    ok(acl.rt.launch_callback(ran.append, [2], 1, stream))
    while len(ran) < 2:
        ok(acl.rt.process_report(1000 * LIMIT))
    assert ran == [[1], [2]]
    ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))


def test_a_callback_inside_a_callback(stream):
    # process_report again, from inside one.
    ran = []
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))

    def outer(_):
        ok(acl.rt.launch_callback(ran.append, ["inner"], 0, stream))
        ok(acl.rt.process_report(1000 * LIMIT))
        ran.append("outer")

    ok(acl.rt.launch_callback(outer, [], 0, stream))
    ok(acl.rt.process_report(1000 * LIMIT))
    assert ran == [["inner"], "outer"]
    ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))


class Thing:
    """Something whose end can be seen."""


def callback_of(ran):
    # What holds it: the function and the list, and nothing else.
    function, items = Thing(), Thing()

    def call(given, function=function):
        ran.append(given)

    return call, [items], [weakref.ref(function), weakref.ref(items)]


def are_gone(references):
    # Objects that the library lets go of are released by the next call into the module.
    acl.get_version()
    gc.collect()
    return [reference() for reference in references] == [None] * len(references)


def test_a_callback_that_ran_lets_go_of_its_objects(served):
    ran = []
    call, items, references = callback_of(ran)
    served.launch(call, items)
    del call, items
    served.finish()
    assert len(ran) == 1
    ran.clear()
    assert are_gone(references)


@pytest.mark.parametrize("by", ["unsubscribe_report", "stream_abort", "destroy_stream_force", "launch_callback"])
def test_a_callback_that_never_runs_lets_go_of_its_objects(device, by):
    ran, me = [], threading.get_ident()
    stream = ok(acl.rt.create_stream())
    call, items, references = callback_of(ran)
    with Gate(stream):
        if by == "launch_callback":
            fails(NO_CALLBACK_THREAD, acl.rt.launch_callback(call, items, 1, stream))
        else:
            ok(acl.rt.subscribe_report(me, stream))
            ok(acl.rt.launch_callback(call, items, 1, stream))
            del call, items
            assert not are_gone(references)
            ok(acl.rt.unsubscribe_report(me, stream) if by == "unsubscribe_report" else getattr(acl.rt, by)(stream))
        call = items = None
        kit.settle()
        assert are_gone(references)
    if by != "destroy_stream_force":
        ok(acl.rt.destroy_stream(stream))
    assert ran == []


def test_nothing_is_counted_twice(served):
    items = [1]
    call = items.count
    before = sys.getrefcount(items), sys.getrefcount(call)
    for block in (0, 1) * 10:
        served.launch(call, items, block)
    served.finish()
    acl.get_version()
    assert (sys.getrefcount(items), sys.getrefcount(call)) == before


def test_what_is_refused(stream):
    me = threading.get_ident()
    kit.refused(NO_CALLBACK_THREAD, acl.rt.launch_callback, print, [], 0, stream)
    kit.refused(NOT_SUBSCRIBED, acl.rt.process_report, 1000)
    kit.refused(NOT_SUBSCRIBED, acl.rt.process_report, -1)
    kit.refused(WRONG_SUBSCRIPTION, acl.rt.unsubscribe_report, me, stream)
    kit.refused(kit.PARAM_INVALID, acl.rt.subscribe_report, 0, stream)
    ok(acl.rt.subscribe_report(me, stream))
    kit.refused(REPEATED, acl.rt.subscribe_report, me, stream)
    kit.refused(REPEATED, acl.rt.subscribe_report, me + 1, stream)
    kit.refused(WRONG_SUBSCRIPTION, acl.rt.unsubscribe_report, me + 1, stream)
    kit.refused(TIME_IS_UP, acl.rt.process_report, 10)
    kit.refused(kit.PARAM_INVALID, acl.rt.launch_callback, print, [], 2, stream)
    kit.refused(kit.PARAM_INVALID, acl.rt.launch_callback, print, [], -1, stream)
    kit.refused(kit.INVALID_HANDLE, acl.rt.launch_callback, print, [], 0, 0xDEAD)
    ok(acl.rt.unsubscribe_report(me, stream))
    # And again, from the beginning.
    ok(acl.rt.subscribe_report(me, stream))
    ok(acl.rt.unsubscribe_report(me, stream))


def test_wrong_types_raise_and_launch_nothing(stream):
    ok(acl.rt.subscribe_report(threading.get_ident(), stream))
    for args, name in [
        ((1, [], 0, stream), "fn"),
        ((print, (), 0, stream), "user_data_list"),
        ((print, None, 0, stream), "user_data_list"),
        ((print, [], "0", stream), "block_type"),
        ((print, [], 0, None), "stream"),
    ]:
        with pytest.raises(TypeError, match=f"'{name}'"):
            acl.rt.launch_callback(*args)
    fails(TIME_IS_UP, acl.rt.process_report(1))
    ok(acl.rt.unsubscribe_report(threading.get_ident(), stream))


def test_one_thread_serves_several_streams(served):
    other, ran = ok(acl.rt.create_stream()), []
    ok(acl.rt.subscribe_report(served.id, other))
    with Gate(served.stream):
        served.launch(ran.append, ["first"])
        done = threading.Event()
        ok(acl.rt.launch_callback(lambda items: (ran.append(items), done.set()), ["second"], 1, other))
        assert done.wait(LIMIT)
    served.finish()
    assert ran == [["second"], ["first"]]
    ok(acl.rt.unsubscribe_report(served.id, other))
    ok(acl.rt.destroy_stream(other))


def test_a_thread_in_process_report_comes_back_when_its_last_stream_goes(device):
    stream = ok(acl.rt.create_stream())
    ready = threading.Event()
    call = Call(lambda: (ready.wait(LIMIT), acl.rt.process_report(-1))[1])
    ok(acl.rt.subscribe_report(call.thread.ident, stream))
    ready.set()
    kit.settle()
    ok(acl.rt.destroy_stream(stream))
    assert call.join() == NOT_SUBSCRIBED
