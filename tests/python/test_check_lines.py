"""Findings of `ferry check`: their stacks have the lines of the program, as `traceback` says them, whatever the version of Python."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import kit
from ferry_acl import command

# Each shape reads a result in flight and notes, on the same line, where Python says it is.
PROGRAM = """
import acl, ctypes, json, sys, tempfile, threading, traceback
import kit

SIZE = 8192
noted = []

def note():
    stack = traceback.extract_stack(sys._getframe(1))
    noted.append([[frame.filename, frame.lineno, frame.name] for frame in reversed(stack)])

def shape(function):
    kit.ok(acl.rt.memcpy_async(host, SIZE, device, SIZE, kit.D2H, stream))
    function()
    kit.ok(acl.rt.synchronize_stream(stream))

kit.ok(acl.init())
kit.ok(acl.rt.set_device(0))
stream = kit.ok(acl.rt.create_stream())
host, device = kit.ok(acl.rt.malloc_host(SIZE)), kit.ok(acl.rt.malloc(SIZE, 0))
kit.ok(acl.rt.memset(device, SIZE, 1, SIZE))
view = acl.util.ptr_to_numpy(host, (SIZE,), 2)

@shape
def nested():
    def inner():
        return view[0], note()
    inner()

shape(lambda: (view[0], note()))

@shape
def comprehension():
    return [(view[at], note()) for at in range(1)]

@shape
def generator():
    def pieces():
        yield
        yield view[0], note()
    def delegates():
        yield from pieces()
    list(delegates())

@shape
def coroutine():
    async def step():
        return view[0], note()
    async def steps():
        await step()
    try:
        steps().send(None)
    except StopIteration:
        pass

@shape
def class_body():
    class Step:
        first = view[0], note()

@shape
def handler():
    try:
        raise ValueError
    except ValueError:
        view[0], note()
    finally:
        pass

@shape
def other_thread():
    def body():
        view[0], note()
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()

@shape
def foreign_callback():
    @ctypes.CFUNCTYPE(ctypes.c_int)
    def called():
        view[0], note()
        return 0
    called()

@shape
def without_the_lock():
    target = ctypes.create_string_buffer(SIZE)
    ctypes.memmove(target, host, SIZE), note()

@shape
def system_call():
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(view), note()

@shape
def system_call_in_a_worker():
    def body():
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(view), note()
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()

@shape
def backwards():
    for at in range(2):
        if at == 1:
            (view[0], note())
        at += 1
{gap}

@shape
def far_below():
    pass
{gap}
    for _ in range(1):
        pass
{gap}
        print(
            "a",
{gap}
            view[0], note(),
{gap}
            "b", file=sys.stderr)

@shape
def wide():
    {wide}
    view[0], note()

@shape
def compiled():
    exec(compile("{lines}view[0], note()", "made_up.py", "exec"), globals())

view[:] = 2
kit.ok(acl.rt.memcpy_async(host, SIZE, device, SIZE, kit.D2H, stream))
view[0], note()
kit.ok(acl.rt.synchronize_stream(stream))
print(json.dumps(noted))
"""
# More lines than a byte with a sign counts, and more code in one line than a byte does.
PROGRAM = PROGRAM.replace("{gap}", "\n" * 300).replace("{wide}", "; ".join(["SIZE + len('')"] * 200)).replace("{lines}", "\\n" * 150)

# Two races, each of two copies by the same helper.
CALLS = """
import acl, json, traceback
import kit

SIZE = 8192
noted = []

def copy(to, by):
    noted.append([[frame.filename, frame.lineno + 1 if not at else frame.lineno, frame.name] for at, frame in enumerate(reversed(traceback.extract_stack()))])
    kit.ok(acl.rt.memcpy_async(to, SIZE, host, SIZE, kit.H2D, by))

def weights():
    copy(device[0], stream[0])
    copy(device[0], stream[1])

def cache():
    list(map(lambda by: copy(device[1], by), stream))

kit.ok(acl.init())
kit.ok(acl.rt.set_device(0))
stream = [kit.ok(acl.rt.create_stream()) for _ in range(2)]
host, device = kit.ok(acl.rt.malloc_host(SIZE)), [kit.ok(acl.rt.malloc(SIZE, 0)) for _ in range(2)]
weights()
cache()
kit.ok(acl.rt.synchronize_device())
print(json.dumps(noted))
"""


def sees_accesses():
    """Whether this user may have the form of userfaultfd that shows lines."""
    allowed = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd")
    return os.geteuid() == 0 or (allowed.exists() and allowed.read_text().strip() == "1")


def check(tmp_path, text, id):
    """The findings of a program, all of this id, and what it has printed."""
    program, found = tmp_path / "program.py", tmp_path / "found.json"
    program.write_text(text)
    words = [command.find(), "check", "--json", found, "--", sys.executable, program]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(kit.HERE), os.environ.get("PYTHONPATH", "")])}, capture_output=True, text=True, timeout=kit.LIMIT)
    assert done.returncode == 99, done.stdout + done.stderr
    findings = json.loads(found.read_text())["findings"]
    assert {finding["id"] for finding in findings} == {id}
    return findings, json.loads(done.stdout)


def python_frames(stack):
    """The part of a stack that is Python, innermost first: it has no frames of libraries between."""
    frames = [[frame["file"], frame["line"], frame["function"]] for frame in stack]
    return [frame for frame in frames if str(frame[0]).endswith(".py")]


@pytest.mark.skipif(not sees_accesses(), reason="userfaultfd is not allowed")
@pytest.mark.skipif(command.find() is None, reason="built without the command")
def test_accesses_have_the_lines_that_traceback_says(tmp_path):
    findings, noted = check(tmp_path, PROGRAM, "FERRY-HOST-READ")
    assert len(noted) == 17
    assert sorted(python_frames(finding["access"]["stack"]) for finding in findings) == sorted(noted)


@pytest.mark.skipif(command.find() is None, reason="built without the command")
def test_calls_have_the_lines_that_traceback_says(tmp_path):
    findings, noted = check(tmp_path, CALLS, "FERRY-STREAM-RACE")
    told = [python_frames(finding[part]["stack"]) for finding in findings for part in ("work", "access")]
    assert told == noted
