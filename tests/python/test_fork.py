"""Children of a process that used acl: every call answers 107002 and says why, at once; what needs no device still works."""

import os
import subprocess
import sys

import kit

CALLS = """
import os, signal, sys, threading
import acl, kit
from kit import ok

# Arguments that are good for each function, in the parent.
def calls(stream, event, context, device, host, array):
    cfg = {}
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 0, "location": {"id": 0, "type": 1}, "reserve": 0}
    attrs = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
    me = threading.get_ident()
    rt = {
        "memcpy": (device, 64, host, 64, 1), "memcpy_async": (device, 64, host, 64, 1, stream),
        "memcpy_async_with_condition": (device, 64, host, 64, 1, stream), "memcpy2d": (device, 64, host, 64, 8, 8, 1),
        "memcpy2d_async": (device, 64, host, 64, 8, 8, 1, stream), "get_memcpy_desc_size": (6,),
        "set_memcpy_desc": (device, 6, device, device, 64, 0), "memcpy_async_with_desc": (device, 6, stream),
        "memset": (device, 64, 0, 64), "memset_async": (device, 64, 0, 64, stream),
        "reduce_async": (device, device, 64, 1, 0, stream, 0),
        "memcpy_batch_async": ([device], [64], [host], [64], 1, attrs, [0], 1, stream),
        "memcpy_batch": ([device], [64], [host], [64], 1, attrs, [0], 1),
        "get_run_mode": (), "set_device": (0,), "reset_device": (0,), "reset_device_force": (0,), "get_device": (),
        "get_device_count": (), "device_can_access_peer": (0, 0), "device_enable_peer_access": (1, 0),
        "device_disable_peer_access": (1,), "device_peer_access_status": (0, 1), "get_mem_info": (1,),
        "get_device_utilization_rate": (0,), "create_context": (0,), "destroy_context": (context,),
        "set_context": (context,), "get_context": (), "create_stream": (), "create_stream_with_config": (0, 0),
        "destroy_stream": (stream,), "destroy_stream_force": (stream,), "synchronize_stream": (stream,),
        "synchronize_stream_with_timeout": (stream, 1000), "synchronize_device": (),
        "synchronize_device_with_timeout": (1000,), "stream_query": (stream,), "stream_abort": (stream,),
        "query_device_status": (0,), "device_task_abort": (0, 0), "set_stream_overflow_switch": (stream, 1),
        "get_stream_overflow_switch": (stream,), "get_overflow_status": (device, 64, stream),
        "reset_overflow_status": (stream,), "set_op_wait_timeout": (1,),
        "set_stream_attribute": (stream, 3, {"userCustomTag": 1}), "get_stream_attribute": (stream, 3),
        "set_exception_info_callback": (print,), "device_get_stream_priority_range": (),
        "get_logic_dev_id_by_user_dev_id": (0,), "get_primary_ctx_state": (0,), "cmo_async": (device, 64, 0, stream),
        "value_write": (device, 1, 0, stream), "value_wait": (device, 1, 1, stream), "set_device_res_limit": (0, 0, 1),
        "get_device_res_limit": (0, 0), "reset_device_res_limit": (0,), "set_stream_res_limit": (stream, 0, 1),
        "get_stream_res_limit": (stream, 0), "reset_stream_res_limit": (stream,),
        "use_stream_res_in_current_thread": (stream,), "unuse_stream_res_in_current_thread": (stream,),
        "get_res_in_current_thread": (0,),
        "create_event": (), "create_event_with_flag": (1,), "create_event_ex_with_flag": (1,), "destroy_event": (event,),
        "record_event": (event, stream), "stream_wait_event": (stream, event), "reset_event": (event, stream),
        "query_event": (event,), "query_event_status": (event,), "query_event_wait_status": (event,),
        "synchronize_event": (event,), "synchronize_event_with_timeout": (event, 1000),
        "event_elapsed_time": (event, event), "event_get_timestamp": (event,), "subscribe_report": (me, stream),
        "unsubscribe_report": (me, stream), "launch_callback": (print, [], 0, stream), "process_report": (1000,),
        "malloc": (64, 0), "malloc_align32": (64, 0), "malloc_cached": (64, 0), "malloc_with_cfg": (64, 0, cfg),
        "malloc_for_task_scheduler": (64, 0, cfg), "free": (device,), "malloc_host": (64,), "malloc_host_with_cfg": (64, cfg),
        "free_host": (host,), "host_register": (array, 4096, 0), "host_register_v2": (array, 4096, kit.PINNED),
        "host_get_device_pointer": (array, 0), "host_unregister": (array,), "reserve_mem_address": (2 << 20, 0, 0, 0),
        "malloc_physical": (2 << 20, prop, 0), "map_mem": (device, 2 << 20, 0, 1, 0), "unmap_mem": (device,),
        "free_physical": (1,), "release_mem_address": (device,), "ipc_mem_get_export_key": (device, 64, 65, 0),
        "ipc_mem_import_by_key": ("key", 0), "ipc_mem_close": ("key",), "ipc_mem_set_import_pid": ("key", [1]),
        "notify_batch_reset": ([1],), "notify_set_import_pid": (1, [1]), "notify_import_by_key": ("key", 0),
    }
    top = {"init": (), "finalize": (), "finalize_reference": (), "get_version": (), "get_version_str": ("runtime",)}
    return {**{(acl.rt, name): args for name, args in rt.items()}, **{(acl, name): args for name, args in top.items()}}

def used():
    ok(acl.rt.set_device(0))
    stream, event = ok(acl.rt.create_stream()), ok(acl.rt.create_event_with_flag(1))
    device, host = ok(acl.rt.malloc(4096, 0)), ok(acl.rt.malloc_host(4096))
    ok(acl.rt.memset(device, 4096, 7, 4096))
    ok(acl.rt.memcpy_async(host, 4096, device, 4096, kit.D2H, stream))
    ok(acl.rt.synchronize_stream(stream))
    array, owner = kit.aligned(4096)
    return (stream, event, ok(acl.rt.get_context()), device, host, array), owner

def forked(child):
    # What the child said: its exit status. A child that hangs is ended by its alarm.
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(20)
            child()
        except BaseException:
            import traceback
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
"""


def test_every_call_in_a_child_says_that_it_is_one():
    kit.passes(
        CALLS
        + """
handles, owner = used()
stream, event, context, device, host, array = handles
table = calls(*handles)
about_exceptions = {name for name in dir(acl.rt) if name.endswith("_from_exception_info")}
known = {name for name in dir(acl.rt) if not name.startswith("_")} - about_exceptions
assert known <= {name for module, name in table if module is acl.rt}, known

def child():
    for (module, name), args in table.items():
        if not hasattr(module, name):
            continue
        acl.get_recent_err_msg()
        result = getattr(module, name)(*args)
        ret = result[-1] if isinstance(result, tuple) else result
        said = acl.get_recent_err_msg()
        assert ret == kit.NO_CONTEXT, (name, result, said)
        assert "forked" in said and "107002" in said, (name, said)
        outputs = result[:-1] if isinstance(result, tuple) else ()
        # set_memcpy_desc gives its argument back.
        nothing = (0, "", kit.NO_PIECE, device)
        assert all(output in nothing or isinstance(output, dict) for output in outputs), (name, result)
    assert acl.get_soc_name() is None and "forked" in acl.get_recent_err_msg()
    # These have no code to return, and nothing to tell.
    assert {getattr(acl.rt, name)(1) for name in about_exceptions} == {2**32 - 1}

assert forked(child) == 0
# Nothing of the parent's was touched.
assert acl.util.ptr_to_bytes(host, 4096) == bytes([7]) * 4096
ok(acl.rt.memcpy_async(device, 64, host, 64, kit.H2D, stream))
ok(acl.rt.synchronize_stream(stream))
"""
    )


def test_what_needs_no_device_works_in_a_child():
    kit.passes(
        CALLS
        + """
import numpy as np
handles, owner = used()
host = handles[4]

def child():
    data = bytearray(b"abc")
    at = acl.util.bytes_to_ptr(data)
    assert acl.util.ptr_to_bytes(at, 3) == b"abc"
    view = acl.util.ptr_to_numpy(at, (3,), 2)
    view[0] = 0x58
    assert data == b"Xbc"
    array = np.arange(12).reshape(3, 4)
    assert acl.util.numpy_contiguous_to_ptr(array)[0] == array.ctypes.data == acl.util.numpy_to_ptr(array)
    try:
        acl.util.ptr_to_bytes(8, 3)
        raise AssertionError("read")
    except ValueError:
        pass
    done = []
    thread = ok(acl.util.start_thread(lambda items: items.append(acl.rt.set_device(0)), done))
    ok(acl.util.stop_thread(thread))
    assert done == [kit.NO_CONTEXT]

assert forked(child) == 0
"""
    )


def test_a_child_ends_with_work_of_the_parent_in_flight():
    # By the interpreter's own end, not by os._exit: what acl does at the end must not wait for the parent's threads.
    done = kit.run_python(
        CALLS
        + """
import time
handles, owner = used()
stream, context = handles[0], handles[2]
gate = kit.Gate(stream)
started, over = threading.Event(), threading.Event()
def serve(_):
    ok(acl.rt.set_context(context))
    ready.wait()
    while acl.rt.process_report(-1) == 0:
        pass
ready = threading.Event()
served = ok(acl.rt.create_stream())
thread = ok(acl.util.start_thread(serve, []))
ok(acl.rt.subscribe_report(thread, served))
ready.set()
ok(acl.rt.launch_callback(lambda _: (started.set(), over.wait()), [], 1, served))
started.wait()
waits = kit.Call(acl.rt.synchronize_stream, stream).blocked()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    begun = time.monotonic()
    assert acl.rt.synchronize_stream(stream) == kit.NO_CONTEXT
    import atexit
    # Behind acl's own.
    atexit._run_exitfuncs()
    took = time.monotonic() - begun
    assert took < 10, took
    sys.exit(6)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6
over.set()
gate.open()
ok(waits.join())
""",
        # Newer interpreters warn of every fork of a process with threads.
        env={"PYTHONWARNINGS": "ignore::DeprecationWarning"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_child_forked_in_a_callback_and_in_a_thread_ends():
    kit.passes(
        CALLS
        + """
handles, owner = used()
stream, context = handles[0], handles[2]
ended = []
def fork(_):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        code = 7 if acl.rt.get_device()[1] == kit.NO_CONTEXT else 8
        os._exit(code)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

ok(acl.rt.subscribe_report(threading.get_ident(), stream))
ok(acl.rt.launch_callback(fork, [], 1, stream))
ok(acl.rt.process_report(-1))
ok(acl.util.stop_thread(ok(acl.util.start_thread(fork, []))))
assert ended == [7, 7], ended
"""
    )


def test_a_child_of_a_process_that_only_imported_acl_works():
    kit.passes(
        CALLS
        + """
def child():
    handles, owner = used()
    assert acl.util.ptr_to_bytes(handles[4], 4096) == bytes([7]) * 4096
    # And its own child does not.
    def grandchild():
        assert acl.rt.set_device(0) == kit.NO_CONTEXT
    assert forked(grandchild) == 0

assert forked(child) == 0
# The parent begins afterwards, and is none of that.
used()
"""
    )


WORKERS = """
import multiprocessing, sys
import acl, kit

def copy(number):
    ret = acl.rt.set_device(0)
    if ret != 0:
        return ret, acl.get_recent_err_msg()
    memory = kit.Memory("device", 4096, bytes([number]) * 4096)
    return ret, memory.read() == bytes([number]) * 4096

if __name__ == "__main__":
    kit.ok(acl.rt.set_device(0))
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        for ret, said in pool.map(copy, range(4)):
            print(ret, said)
"""


def run_workers(tmp_path, method):
    # A file: children that are spawned import the program.
    file = tmp_path / "workers.py"
    file.write_text(WORKERS)
    environment = {**os.environ, "PYTHONPATH": kit.python_path()}
    command = [sys.executable, str(file), method]
    done = subprocess.run(command, env=environment, timeout=kit.LIMIT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout.splitlines()


def test_workers_that_are_forked_are_told(tmp_path):
    lines = run_workers(tmp_path, "fork")
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("107002 ") and "forked" in line


def test_workers_that_are_spawned_work(tmp_path):
    assert run_workers(tmp_path, "spawn") == ["0 True"] * 4
