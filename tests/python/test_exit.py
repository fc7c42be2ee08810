"""Programs that end with work in flight: each ends with its own code, within seconds, and says nothing on stderr."""

import textwrap

import pytest

import kit

# Far above what any of them takes, and below what a program that hangs would.
SECONDS = 30

START = """
import atexit, os, sys, threading, time, types
import numpy as np

# Registered first, so called last: behind what acl does at the end.
late = []
atexit.register(lambda: [function() for function in late])

import acl
import kit
from kit import ok, D2H, H2D, PINNED

def work():
    global context
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.get_context())
    return ok(acl.rt.create_stream())

def page_locked(size):
    owner = np.full(size + 8192, 7, dtype=np.uint8)
    at = acl.util.bytes_to_ptr(owner)
    at += -at % 4096
    ok(acl.rt.host_register_v2(at, size, PINNED))
    return at, owner

def elsewhere(item):
    # Threads keep the names of this module alive for ever; those of another go, and what they hold.
    sys.modules["other"] = types.ModuleType("other")
    sys.modules["other"].item = item

def hold(stream):
    # Not a Gate: that has a thread.
    event = ok(acl.rt.create_event_with_flag(1))
    helper = ok(acl.rt.create_stream())
    ok(acl.rt.record_event(event, helper))
    ok(acl.rt.reset_event(event, helper))
    ok(acl.rt.synchronize_stream(helper))
    ok(acl.rt.stream_wait_event(stream, event))

def serve(stream):
    # A thread that runs the callbacks of the stream.
    def body(_):
        ok(acl.rt.set_context(context))
        ready.wait()
        while acl.rt.process_report(-1) == 0:
            pass
    ready = threading.Event()
    thread = ok(acl.util.start_thread(body, []))
    ok(acl.rt.subscribe_report(thread, stream))
    ready.set()
    return thread
"""

PROGRAMS = {
    "right after the import": "",
    "without init": """
        ok(acl.rt.set_device(0))
        ok(acl.rt.malloc(4096, 0))
    """,
    "after init": "ok(acl.init())",
    "after finalize": """
        ok(acl.init())
        ok(acl.rt.set_device(0))
        ok(acl.finalize())
    """,
    "with a stream that is held": """
        stream = work()
        hold(stream)
        memory = ok(acl.rt.malloc_host(4096))
        device = ok(acl.rt.malloc(4096, 0))
        ok(acl.rt.memcpy_async(device, 4096, memory, 4096, H2D, stream))
    """,
    # The interpreter frees the array, whose memory the copies write to.
    "with copies into an array": """
        stream = work()
        size = 64 << 20
        at, array = page_locked(size)
        device = ok(acl.rt.malloc(size, 0))
        for _ in range(20):
            ok(acl.rt.memcpy_async(at, size, device, size, D2H, stream))
    """,
    "with copies into an array and a stream that is held": """
        stream, other = work(), work()
        hold(stream)
        size = 64 << 20
        at, array = page_locked(size)
        device = ok(acl.rt.malloc(size, 0))
        for _ in range(10):
            ok(acl.rt.memcpy_async(at, size, device, size, D2H, stream))
            ok(acl.rt.memcpy_async(at, size, device, size, D2H, other))
    """,
    "with threads that copy": """
        work()
        size = 64 << 20
        array = np.zeros(size, dtype=np.uint8)
        at = acl.util.bytes_to_ptr(array)
        elsewhere(array)
        del array
        device = ok(acl.rt.malloc(size, 0))
        going = threading.Semaphore(0)
        def body():
            acl.rt.set_context(context)
            going.release()
            while True:
                acl.rt.memcpy(at, size, device, size, D2H)
        for _ in range(3):
            threading.Thread(target=body, daemon=True).start()
            going.acquire()
    """,
    "with threads that submit copies": """
        stream = work()
        size = 8 << 20
        at, array = page_locked(size)
        elsewhere(array)
        del array
        device = ok(acl.rt.malloc(size, 0))
        going = threading.Semaphore(0)
        def body():
            acl.rt.set_context(context)
            while True:
                acl.rt.memcpy_async(at, size, device, size, D2H, stream)
                going.release()
                if acl.rt.stream_query(stream)[0]:
                    time.sleep(0)
        for _ in range(3):
            threading.Thread(target=body, daemon=True).start()
            going.acquire()
    """,
    "with threads that call and call": """
        work()
        going = threading.Semaphore(0)
        def body(_):
            while True:
                going.release()
                acl.rt.set_context(context)
                acl.rt.get_device()
                acl.rt.synchronize_device()
                stream, _ = acl.rt.create_stream()
                acl.rt.destroy_stream(stream)
        for _ in range(4):
            ok(acl.util.start_thread(body, []))
            going.acquire()
    """,
    "with threads that start threads and wait for them": """
        going = threading.Semaphore(0)
        def body(_):
            while True:
                going.release()
                ok(acl.util.stop_thread(ok(acl.util.start_thread(print, []))))
        sys.stdout = open(os.devnull, "w")
        for _ in range(3):
            ok(acl.util.start_thread(body, []))
            going.acquire()
    """,
    "with a thread in process_report": """
        stream = work()
        serve(stream)
    """,
    "with threads that wait for a stream that is held": """
        stream = work()
        hold(stream)
        def body(_):
            ok(acl.rt.set_context(context))
            ids.append(threading.get_native_id())
            acl.rt.synchronize_stream(stream)
            print("came back", file=sys.stderr)
        ids = []
        for _ in range(3):
            ok(acl.util.start_thread(body, []))
        def deep(_):
            ids.append(threading.get_native_id())
            ok(acl.util.stop_thread(waiting))
            print("came back", file=sys.stderr)
        waiting = ok(acl.util.start_thread(body, []))
        ok(acl.util.start_thread(deep, []))
        while len(ids) < 5:
            time.sleep(0.001)
        kit.settle()
    """,
    "with callbacks that wait for their turn": """
        stream = work()
        serve(stream)
        hold(stream)
        for number in range(100):
            ok(acl.rt.launch_callback(print, [number], number % 2, stream))
    """,
    "with a callback that runs": """
        stream = work()
        serve(stream)
        def callback(_):
            started.set()
            over.wait()
            # The program is over and waits for this: it can use acl to its end.
            memory = ok(acl.rt.malloc(4096, 0))
            ok(acl.rt.free(memory))
            print("the callback ended", flush=True)
        started, over = threading.Event(), threading.Event()
        ok(acl.rt.launch_callback(callback, [], 1, stream))
        started.wait()
        atexit.register(over.set)
    """,
    "with a callback that never ends": """
        stream = work()
        serve(stream)
        def callback(_):
            started.set()
            while True:
                time.sleep(0.001)
                acl.rt.get_device()
        started = threading.Event()
        ok(acl.rt.launch_callback(callback, [], 1, stream))
        started.wait()
    """,
    "with callbacks that run all the time": """
        stream = work()
        serve(stream)
        def callback(_):
            started.set()
            acl.rt.launch_callback(callback, [], 1, stream)
        started = threading.Event()
        ok(acl.rt.launch_callback(callback, [], 1, stream))
        started.wait()
    """,
    "and calls acl from atexit and __del__": """
        class Owner:
            def __init__(self):
                self.stream = work()
                self.thread = serve(self.stream)
                self.device = ok(acl.rt.malloc(4096, 0))
                self.array = bytearray(4096)
            def copy(self):
                ok(acl.rt.memset(self.device, 4096, 9, 4096))
                at = acl.util.bytes_to_ptr(self.array)
                ok(acl.rt.memcpy_async(at, 4096, self.device, 4096, D2H, self.stream))
                ok(acl.rt.synchronize_stream(self.stream))
                assert self.array == bytes([9]) * 4096
            def close(self):
                self.copy()
                ok(acl.rt.unsubscribe_report(self.thread, self.stream))
                ok(acl.util.stop_thread(self.thread))
                ok(acl.rt.destroy_stream(self.stream))
                ok(acl.rt.free(self.device))
                ok(acl.rt.reset_device(0))
                print(self.name, flush=True)
        class Last(Owner):
            def __del__(self):
                self.close()
        early, behind, last = Owner(), Owner(), Last()
        early.name, behind.name, last.name = "early", "late", "gone"
        elsewhere(last)
        del last
        atexit.register(early.close)
        late += [behind.copy, behind.close]
    """,
    "with threads in the __index__ of an argument": """
        work()
        class Number:
            def __index__(self):
                started.release()
                time.sleep(0.01)
                return 0
        def body():
            while True:
                acl.rt.set_device(Number())
        started = threading.Semaphore(0)
        for _ in range(16):
            threading.Thread(target=body, daemon=True).start()
        for _ in range(64):
            started.acquire()
    """,
    "and then waits for a thread that calls acl": """
        work()
        memory = ok(acl.rt.malloc(4096, 0))
        def body():
            ok(acl.rt.set_context(context))
            asked.wait()
            ok(acl.rt.memset(memory, 4096, 9, 4096))
            ok(acl.rt.free(memory))
            print("freed", flush=True)
        asked = threading.Event()
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        late += [asked.set, thread.join]
    """,
    "slowly, while threads call acl all the time": """
        work()
        pinned = ok(acl.rt.malloc_host(1 << 20))
        device = ok(acl.rt.malloc(1 << 20, 0))
        def body():
            ok(acl.rt.set_context(context))
            stream = ok(acl.rt.create_stream())
            while True:
                acl.rt.memcpy_async(device, 1 << 20, pinned, 1 << 20, H2D, stream)
                acl.rt.synchronize_stream(stream)
        for _ in range(4):
            threading.Thread(target=body, daemon=True).start()
        late.append(lambda: time.sleep(1.5))
    """,
}

ENDS = {
    "by its last line": ("", 0),
    "by sys.exit": ("sys.exit(3)", 3),
    "by os._exit": ("os._exit(5)", 5),
}

PRINTS = {
    "with a callback that runs": "the callback ended\n",
    "and calls acl from atexit and __del__": "early\nlate\ngone\n",
    "and then waits for a thread that calls acl": "freed\n",
}


def check(program, end="", code=0, prints=""):
    done = kit.run_python(START + textwrap.dedent(program) + "\n" + end, timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (code, prints, "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends(name):
    check(PROGRAMS[name], prints=PRINTS.get(name, ""))


@pytest.mark.parametrize("end", ["by sys.exit", "by os._exit"])
@pytest.mark.parametrize(
    "name",
    [
        "right after the import",
        "with copies into an array and a stream that is held",
        "with threads that wait for a stream that is held",
        "with callbacks that wait for their turn",
    ],
)
def test_a_program_ends_with_its_own_code(name, end):
    check(PROGRAMS[name], *ENDS[end])


def test_a_program_that_raises_shows_its_exception_and_no_more():
    program = PROGRAMS["with copies into an array and a stream that is held"]
    done = kit.run_python(START + textwrap.dedent(program) + "\nraise RuntimeError('on purpose')", timeout=SECONDS)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback") and done.stderr.endswith("RuntimeError: on purpose\n")
    # What newer interpreters add is the line itself.
    assert done.stderr.count("\n") in (3, 4), done.stderr


def test_threads_that_are_no_daemons_are_waited_for():
    check(
        """
        stream = work()
        gate = kit.Gate(stream)
        def body():
            ok(acl.rt.set_context(context))
            ok(acl.rt.synchronize_stream(stream))
            print("the thread ended")
        def opener():
            threading.main_thread().join()
            ok(acl.rt.set_context(context))
            gate.open()
        threading.Thread(target=body).start()
        threading.Thread(target=opener).start()
        """,
        prints="the thread ended\n",
    )
