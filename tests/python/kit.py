"""Helpers of the tests: codes, memory, gates that hold a stream, calls that wait, and programs in a fresh interpreter."""

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time

import acl

HERE = os.path.dirname(os.path.abspath(__file__))

# Codes.
INVALID_PARAM = 100000
REPEAT_INITIALIZE = 100002
PARAM_INVALID = 107000
NO_CONTEXT = 107002
STREAM_CONTEXT = 107003
UNALIGNED = 107008
INVALID_HANDLE = 107017
NOT_SUPPORTED = 207000

# Kinds of copies.
H2H, H2D, D2H, D2D, DEFAULT, BUFFERED, INNER, INTER = range(8)

# What acl.rt.stream_query tells.
COMPLETE, NOT_READY = 0, 1

# fail_index where no piece is at fault.
NO_PIECE = 2**64 - 1

# Of acl.rt.host_register_v2: page-lock.
PINNED = 0x10000000

POISON = 0xA5

# Longer than anything here takes: what takes longer hangs.
LIMIT = 60


def message():
    """What the failed calls of this thread said since it was last asked."""
    return acl.get_recent_err_msg()


def ok(result):
    """Asserts that a call succeeded. Returns its outputs: None, the one, or a tuple."""
    return fails(0, result)


def fails(code, result):
    """Asserts that a call returned this code, alone or last. Returns its outputs: None, the one, or a tuple."""
    ret = result[-1] if isinstance(result, tuple) else result
    assert type(ret) is int, f"no code: {result!r}"
    assert ret == code, f"{result!r} instead of {code}: {message()}"
    if not isinstance(result, tuple):
        return None
    return result[0] if len(result) == 2 else result[:-1]


def refused(code, call, *args, naming=()):
    """Asserts that a call returns this code, and that its message names these words. Returns the outputs."""
    message()
    result = call(*args)
    ret = result[-1] if isinstance(result, tuple) else result
    said = message() or ""
    assert ret == code, f"{result!r} instead of {code}: {said}"
    for word in (str(code), *naming):
        assert word in said, f"{word!r} is not in {said!r}"
    return fails(code, result)


def address(number):
    """An address as messages have it."""
    return f"{number:#x}"


def pattern(size, seed=0):
    """Bytes that differ from place to place and from seed to seed."""
    return bytes((7 * i + 13 * (i >> 8) + 31 * seed + 1) % 251 for i in range(size))


class Memory:
    """Memory of one home: 'device', 'pinned' (acl.rt.malloc_host) or 'plain' (Python's own, aligned to 4096)."""

    def __init__(self, home, size, content=None):
        self.home, self.size = home, size
        if home == "device":
            self.addr = ok(acl.rt.malloc(size, 0))
        elif home == "pinned":
            self.addr = ok(acl.rt.malloc_host(size))
        else:
            self.addr, self.owner = aligned(size)
        if content is None:
            self.fill(POISON)
        else:
            self.write(content)

    def write(self, content, at=0):
        """Writes bytes, before it returns and whatever streams do."""
        content = bytes(content)
        if content:
            source = acl.util.bytes_to_ptr(content)
            ok(acl.rt.memcpy(self.addr + at, self.size - at, source, len(content), H2H))

    def read(self, size=None, at=0):
        """The bytes as they are now, whatever streams do."""
        size = self.size - at if size is None else size
        content = bytearray(size)
        if size:
            ok(acl.rt.memcpy(acl.util.bytes_to_ptr(content), size, self.addr + at, size, H2H))
        return bytes(content)

    def fill(self, byte):
        self.write(bytes([byte]) * self.size)

    def is_poisoned(self):
        return self.read() == bytes([POISON]) * self.size

    def free(self):
        if self.home == "device":
            ok(acl.rt.free(self.addr))
        elif self.home == "pinned":
            ok(acl.rt.free_host(self.addr))
        self.addr = 0

    def __del__(self):
        # A test that failed, or is over, leaves nothing behind; the interpreter may be over too.
        if getattr(self, "addr", 0) and acl is not None and acl.rt is not None:
            {"device": acl.rt.free, "pinned": acl.rt.free_host}.get(self.home, int)(self.addr)


def aligned(size, alignment=4096, past=0):
    """An address in memory of Python's, `past` bytes past a multiple of `alignment`, and its owner, a bytearray."""
    owner = bytearray(size + 2 * alignment)
    start = acl.util.bytes_to_ptr(owner)
    return start + -start % alignment + past, owner


class Gate:
    """Holds a stream: what is submitted behind it cannot run until the gate is opened. No thread runs and nothing is timed.

    The stream waits for an event that was reset, and that opening records. A gate that stays shut too long opens by itself and
    fails, so that a call that waits behind its own test's gate does not hang.
    """

    def __init__(self, stream):
        self.context = ok(acl.rt.get_context())
        self.helper = ok(acl.rt.create_stream())
        self.event = ok(acl.rt.create_event_with_flag(1))
        ok(acl.rt.record_event(self.event, self.helper))
        ok(acl.rt.reset_event(self.event, self.helper))
        ok(acl.rt.synchronize_stream(self.helper))
        ok(acl.rt.stream_wait_event(stream, self.event))
        self.lock, self.is_open, self.given_up = threading.Lock(), False, False
        self.watchdog = threading.Timer(LIMIT, self._give_up)
        self.watchdog.daemon = True
        self.watchdog.start()

    def open(self):
        """Lets the stream go on; fails if it had to before."""
        self.watchdog.cancel()
        with self.lock:
            assert not self.given_up, "a call that should have come back waited behind the gate"
            if not self.is_open:
                self._let_go()

    def _give_up(self):
        with self.lock:
            if not self.is_open:
                self.given_up = True
                ok(acl.rt.set_context(self.context))
                self._let_go()

    def _let_go(self):
        self.is_open = True
        ok(acl.rt.record_event(self.event, self.helper))
        ok(acl.rt.synchronize_stream(self.helper))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()
        ok(acl.rt.destroy_event(self.event))
        ok(acl.rt.destroy_stream(self.helper))


class Call:
    """A call on a thread of its own, in the context of this one, that has returned or is proven asleep.

    Asleep: the kernel says S, the thread's context switches stand still from one look to the next, and all that time no other
    thread of the process ran that could have been on its way to wake it. A slow machine makes the decision later, not
    different. The looks let go of the interpreter, so that a thread that only waits for that gets it.
    """

    LOOKS = 20

    def __init__(self, function, *args):
        context, ret = acl.rt.get_context()

        def body():
            self.id = threading.get_native_id()
            if ret == 0:
                ok(acl.rt.set_context(context))
            self.started.set()
            try:
                self.result = function(*args)
            except BaseException as error:  # Raised again by whoever asks for the result.
                self.error = error

        self.started, self.error, self.result = threading.Event(), None, None
        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()
        assert self.started.wait(LIMIT), "the thread did not start"
        self.sleeps = self._decide()

    def returned(self):
        """Asserts that the call came back, and returns what it returned."""
        assert not self.sleeps, "the call sleeps instead of coming back"
        return self.join()

    def blocked(self):
        """Asserts that the call sleeps, and returns this."""
        assert self.sleeps, "the call came back instead of waiting"
        return self

    def join(self):
        """Waits until the call comes back, and returns what it returned."""
        self.thread.join(LIMIT)
        assert not self.thread.is_alive(), "the call never came back"
        if self.error is not None:
            raise self.error
        return self.result

    def _decide(self):
        end, last, still = time.monotonic() + LIMIT, None, 0
        while self.thread.is_alive():
            now = _switches_asleep(self.id) if _nobody_runs() else None
            still = still + 1 if now is not None and now == last else 0
            if still == self.LOOKS:
                return True
            assert time.monotonic() < end, "the call neither comes back nor sleeps"
            last = now
            time.sleep(0.001)
        return False


def settle():
    """Returns once no other thread of the process runs: what could happen by itself has happened."""
    end, still = time.monotonic() + LIMIT, 0
    while still < 5:
        still = still + 1 if _nobody_runs() else 0
        assert time.monotonic() < end, "some thread of this process never comes to rest"
        time.sleep(0.001)


def _state(thread):
    # The letter after the name, which is in brackets and may hold anything.
    try:
        with open(f"/proc/self/task/{thread}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _switches_asleep(thread):
    if _state(thread) != "S":
        return None
    try:
        with open(f"/proc/self/task/{thread}/status") as file:
            return [line for line in file if "ctxt_switches" in line]
    except (FileNotFoundError, ProcessLookupError):
        return None


def _nobody_runs():
    me = str(threading.get_native_id())
    return all(_state(thread) in "SZX" for thread in os.listdir("/proc/self/task") if thread != me)


def python_path():
    """Where programs find this file, and what this one finds."""
    path = os.environ.get("PYTHONPATH")
    return HERE if not path else os.pathsep.join((HERE, path))


def run_python(code, *args, env=None, timeout=LIMIT):
    """Runs a program in a fresh interpreter, which finds this file as `kit`. Returns its CompletedProcess, with text.

    env: variables to set, or with None to take away. A board, where host and device memory are one, is none of any GPU's.
    """
    variables = dict(os.environ)
    if (env or {}).get("FERRY_FORM", "ep") != "ep":
        variables["FERRY_BACKEND"] = "host"
    variables["PYTHONPATH"] = python_path()
    for name, value in (env or {}).items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.run(command, env=variables, timeout=timeout, capture_output=True, text=True, check=False)


def passes(code, *args, env=None, timeout=LIMIT):
    """As run_python, and asserts that the program ended well. Returns what it printed."""
    done = run_python(code, *args, env=env, timeout=timeout)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def library():
    """The C library that the process has, for what Python has no function for."""
    return ctypes.CDLL("libascendcl.so")


def notify():
    """A new notify of the current device."""
    made = ctypes.c_size_t()
    ok(library().aclrtCreateNotify(ctypes.byref(made), ctypes.c_uint64(0)))
    return made.value


def notify_key(notify, flags):
    """The key by which other processes import a notify."""
    key = ctypes.create_string_buffer(65)
    ok(library().aclrtNotifyGetExportKey(ctypes.c_size_t(notify), key, ctypes.c_size_t(65), ctypes.c_uint64(flags)))
    return key.value.decode()


def notify_record(notify, stream=0):
    """The code of a record in a stream."""
    return library().aclrtRecordNotify(ctypes.c_size_t(notify), ctypes.c_size_t(stream))


def notify_wait(notify, stream=0):
    """The code of a wait in a stream, for ever."""
    return library().aclrtWaitAndResetNotify(ctypes.c_size_t(notify), ctypes.c_size_t(stream), ctypes.c_uint32(0))
