"""Ctrl-C ends every call that waits, in the thread that handles signals; nothing is lost, and no copy goes on behind its back."""

import os
import signal
import threading
import time

import pytest

import acl
import kit
from kit import D2H, H2D, LIMIT, NOT_READY, POISON, Call, Gate, Memory, fails, ok
from test_ipc import Partner
from test_threads import COUNT, WAITS, Around

MAIN = threading.main_thread().native_id

# A copy that is done in several pieces.
LARGE = 258 << 20


class Signal:
    """Sends a signal to this process once its main thread waits in the call that comes.

    If that does not end the wait, the test fails after LIMIT / 2, and `let_go` runs so that it can.
    """

    def __init__(self, number=signal.SIGINT, let_go=None):
        self.number = number
        self.let_go = let_go or (lambda: os._exit(3))
        self.back, self.hung = threading.Event(), False
        self.thread = threading.Thread(target=self._send, daemon=True)

    def _send(self):
        looks = 0
        while looks < 20 and not self.back.is_set():
            looks = looks + 1 if kit._state(MAIN) == "S" else 0
            time.sleep(0.001)
        if not self.back.is_set():
            os.kill(os.getpid(), self.number)
        if not self.back.wait(LIMIT / 2):
            self.hung = True
            self.let_go()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.back.set()
        self.thread.join(LIMIT)
        assert not self.hung, "the signal did not end the wait"


def interrupted(call, let_go=None):
    """Asserts that Ctrl-C ends a call that waits."""
    with Signal(let_go=let_go), pytest.raises(KeyboardInterrupt):
        call()


CALLS = {
    **WAITS,
    "memset_async": lambda stream, at: acl.rt.memset_async(at.plain, COUNT, 0, COUNT, stream),
}


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_wait_and_nothing_is_lost(device, name):
    stream = ok(acl.rt.create_stream())
    with Gate(stream) as gate:
        around = Around(stream)
        pinned = Memory("pinned", COUNT)
        ok(acl.rt.memcpy_async(pinned.addr, COUNT, around.device, COUNT, D2H, stream))
        interrupted(lambda: CALLS[name](stream, around), gate._give_up)
        # What waited is there still.
        assert ok(acl.rt.stream_query(stream)) == NOT_READY
        assert pinned.is_poisoned()
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
        assert pinned.read() == b"d" * COUNT
        # A copy that was interrupted is not in the stream: its memory was the caller's again at once.
        assert around.memory[1].is_poisoned() and around.memory[0].read() == b"d" * COUNT
        ok(CALLS[name](stream, around))
    ok(acl.rt.destroy_event(around.event))
    if name != "destroy_stream":
        ok(acl.rt.destroy_stream(stream))


def test_a_handler_that_does_not_raise_leaves_the_wait_alone(device, stream):
    handled = []

    def handler(*_):
        # While the call has not failed, and has had the time to begin.
        if time.monotonic() - begin > 0.03 and kit.message() is None:
            handled.append(acl.rt.stream_query(stream))

    kit.message()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with Gate(stream):
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
            # The time is up after as long as was asked for, however often the handler ran.
            fails(507046, acl.rt.synchronize_stream_with_timeout(stream, 300))
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert time.monotonic() - begin > 0.29
            assert handled and all(answer == (NOT_READY, 0) for answer in handled)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_may_end_what_is_waited_for(device, stream):
    before = signal.signal(signal.SIGUSR1, lambda *_: ok(acl.rt.stream_abort(stream)))
    try:
        with Gate(stream) as gate, Signal(signal.SIGUSR1, gate._give_up):
            fails(107023, acl.rt.synchronize_stream(stream))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_a_handler_raises_is_raised(device, stream):
    class Enough(Exception):
        pass

    def handler(*_):
        raise Enough("of it")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with Gate(stream) as gate, Signal(signal.SIGUSR1, gate._give_up), pytest.raises(Enough, match="of it"):
            acl.rt.synchronize_stream(stream)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_process_report(stream):
    ran = []
    thread = threading.get_ident()
    ok(acl.rt.subscribe_report(thread, stream))
    interrupted(lambda: acl.rt.process_report(-1), lambda: acl.rt.launch_callback(ran.append, [1], 0, stream))
    ok(acl.rt.launch_callback(ran.append, [2], 1, stream))
    ok(acl.rt.process_report(-1))
    assert ran == [[2]]
    ok(acl.rt.unsubscribe_report(thread, stream))


@pytest.mark.parametrize(
    "name", ["destroy_context", "reset_device", "reset_device_force", "finalize", "finalize_reference"]
)
def test_what_was_not_ended_is_as_before(name):
    # In a process of its own: they end what other tests use.
    kit.passes(
        """
        import sys, acl, kit
        from kit import ok
        from test_interrupt import interrupted
        name = sys.argv[1]
        ok(acl.init())
        ok(acl.rt.set_device(0))
        primary = ok(acl.rt.get_context())
        context = ok(acl.rt.create_context(0)) if name == "destroy_context" else primary
        stream = ok(acl.rt.create_stream())
        call = {
            "destroy_context": lambda: acl.rt.destroy_context(context),
            "reset_device": lambda: acl.rt.reset_device(0),
            "reset_device_force": lambda: acl.rt.reset_device_force(0),
            "finalize": acl.finalize,
            "finalize_reference": acl.finalize_reference,
        }[name]
        # The event is of no stream that goes away.
        ok(acl.rt.set_context(primary))
        event = ok(acl.rt.create_event_with_flag(1))
        ok(acl.rt.record_event(event, 0))
        ok(acl.rt.reset_event(event, 0))
        ok(acl.rt.synchronize_stream(0))
        ok(acl.rt.set_context(context))
        ok(acl.rt.stream_wait_event(stream, event))
        interrupted(call)
        assert ok(acl.rt.stream_query(stream)) == kit.NOT_READY
        ok(acl.rt.set_context(primary))
        ok(acl.rt.record_event(event, 0))
        ok(acl.rt.set_context(context))
        ok(acl.rt.synchronize_stream(stream))
        ok(call())
        """,
        name,
    )


@pytest.mark.parametrize("name", ["memcpy", "memcpy_async"])
def test_a_large_copy_stops_between_two_pieces(stream, name):
    memory, out = ok(acl.rt.malloc(LARGE, 0)), bytearray([POISON]) * LARGE
    ok(acl.rt.memset(memory, LARGE, 1, LARGE))
    at = acl.util.bytes_to_ptr(out)
    call = {
        "memcpy": lambda: acl.rt.memcpy(at, LARGE, memory, LARGE, D2H),
        "memcpy_async": lambda: acl.rt.memcpy_async(at, LARGE, memory, LARGE, D2H, stream),
    }[name]

    def raise_once_it_is_under_way(*_):
        if out[0] != POISON:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_once_it_is_under_way)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        with pytest.raises(KeyboardInterrupt):
            ok(call())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert out[-1] == POISON
    ok(call())
    assert out.count(1) == LARGE
    ok(acl.rt.free(memory))


class Stopped:
    """The key of an exporter that is stopped inside, and answers afterwards."""

    def __enter__(self):
        self.partner = Partner()
        memory = ok(self.partner.ask("rt.malloc(4096, 0)"))
        self.key = ok(self.partner.ask(f"rt.ipc_mem_get_export_key({memory}, 4096, 65, 1)"))
        os.kill(self.partner.pid, signal.SIGSTOP)
        os.waitpid(self.partner.pid, os.WUNTRACED)  # until it is
        return self.key

    def __exit__(self, *_):
        os.kill(self.partner.pid, signal.SIGCONT)
        ok(acl.rt.ipc_mem_import_by_key(self.key, 0))
        ok(acl.rt.ipc_mem_close(self.key))
        self.partner.end()


def test_ctrl_c_ends_an_import_from_a_process_that_is_stopped(device):
    with Stopped() as key:
        interrupted(lambda: acl.rt.ipc_mem_import_by_key(key, 0))


def test_ctrl_c_ends_the_wait_for_the_import_of_another_thread(device):
    with Stopped() as key:
        other = Call(acl.rt.ipc_mem_import_by_key, key, 0).blocked()
        interrupted(lambda: acl.rt.ipc_mem_import_by_key(key, 0))
    # The other thread went on, and counts by itself.
    ok(other.join())
    ok(acl.rt.ipc_mem_close(key))
    fails(107000, acl.rt.ipc_mem_close(key))


def test_a_handler_cannot_wait_for_the_import_that_it_interrupts(device):
    codes = []

    def handler(*_):
        # If this comes before the call, it is itself interrupted by the next.
        codes.append(acl.rt.ipc_mem_import_by_key(key, 0)[1])
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        # Signal 0 sends nothing: this is against a hang.
        with Stopped() as key, Signal(0), pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
            acl.rt.ipc_mem_import_by_key(key, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert set(codes) == {107000}


def test_ctrl_c_ends_an_allocation_that_waits_for_freed_memory():
    # The memory is freed, but held by a copy that cannot run.
    kit.passes(
        '''
        import signal, time, acl, kit
        from kit import D2D, Gate, ok
        said = []
        def handler(*_):
            # Inside the call, which has not failed yet: Python by itself handles signals behind it.
            if time.monotonic() - begin > 0.03:
                signal.setitimer(signal.ITIMER_REAL, 0)
                said.append(acl.get_recent_err_msg())
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, handler)
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        free, total = ok(acl.rt.get_mem_info(1))
        block = ok(acl.rt.malloc(free - (8 << 20), 2))
        with Gate(stream) as gate:
            ok(acl.rt.memcpy_async(block, 4096, block + 8192, 4096, D2D, stream))
            ok(acl.rt.free(block))
            begin = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
            try:
                acl.rt.malloc(64 << 20, 2)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
            assert said == [None], said
            gate.open()
        ok(acl.rt.synchronize_stream(stream))
        ok(acl.rt.malloc(64 << 20, 2))
        ''',
        env={"FERRY_DEVICE_MEMORY": "256M"},
    )


def test_a_handler_that_forks_leaves_no_child_behind_that_waits():
    kit.passes(
        '''
        import os, signal, sys, acl, kit
        from kit import Gate, fails, ok
        from test_interrupt import Signal
        def handler(*_):
            global child
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 0
                raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, handler)
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        gate = Gate(stream)
        with Signal(signal.SIGUSR1):
            try:
                code = acl.rt.synchronize_stream(stream)
            except KeyboardInterrupt:
                pass
            else:
                os._exit(0 if child == 0 and code == kit.NO_CONTEXT else 1)
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
        '''
    )


def test_other_threads_wait_as_before(device, stream):
    with Gate(stream) as gate:
        # A thread that handles no signals is not woken to look for them: it is proven asleep.
        call = kit.Call(acl.rt.synchronize_stream, stream).blocked()
        with pytest.raises(KeyboardInterrupt):
            with Signal(let_go=gate._give_up):
                threading.Event().wait(LIMIT)
        assert call.thread.is_alive()
        gate.open()
        ok(call.join())


def test_memory_of_an_upload_is_the_callers_again(stream):
    data, there = bytearray(COUNT), Memory("device", COUNT)
    with Gate(stream) as gate:
        at = acl.util.bytes_to_ptr(data)
        interrupted(lambda: acl.rt.memcpy_async(there.addr, COUNT, at, COUNT, H2D, stream), gate._give_up)
        data[:] = b"x" * COUNT
        gate.open()
        ok(acl.rt.synchronize_stream(stream))
        assert there.is_poisoned()
