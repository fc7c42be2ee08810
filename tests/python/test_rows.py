"""Every row of the sheet is there, with the documented arguments and the documented shape of what it returns; nothing else is."""

import ast
import importlib
import inspect
import threading
import types

import numpy
import pytest

import acl
import kit
import sheet
from kit import ok

rt, util = acl.rt, acl.util

ROWS = pytest.mark.parametrize("row", sheet.ROWS, ids=str)

# Documented: may be left out.
OPTIONAL = {"acl.init": ["config_path"], "acl.rt.set_exception_info_callback": ["fn"]}


def test_the_table_has_every_row_once():
    names = [row.name for row in sheet.ROWS]
    assert len(names) == len(set(names)) == 129


# proves: R21
@ROWS
def test_arguments_have_the_documented_names_and_order(row):
    parameters = inspect.signature(row.function).parameters.values()
    assert [parameter.name for parameter in parameters] == row.names
    assert all(parameter.kind == parameter.POSITIONAL_ONLY for parameter in parameters)
    optional = [parameter.name for parameter in parameters if parameter.default is not parameter.empty]
    assert optional == OPTIONAL.get(row.name, [])


@ROWS
def test_the_signature_is_there_for_help(row):
    names = ", ".join(f"{name}=None" if name in OPTIONAL.get(row.name, []) else name for name in row.names)
    # $module is how functions say that they know their module, which is no argument.
    signature = row.function.__text_signature__.replace("$module, ", "")
    assert signature == (f"({names}, /)" if names else "()")
    assert row.function.__name__ == row.name.rpartition(".")[2]
    assert row.function.__doc__


@ROWS
def test_arguments_by_keyword_raise(row):
    good = sheet.harmless(row)
    for index, name in enumerate(row.names):
        with pytest.raises(TypeError):
            row.function(*good[:index], **dict(zip(row.names[index:], good[index:])))
    with pytest.raises(TypeError):
        row.function(*good, no_such_argument=0)


@ROWS
def test_too_few_and_too_many_arguments_raise(row):
    good = sheet.harmless(row)
    least = len(good) - len(OPTIONAL.get(row.name, []))
    for count in range(least):
        with pytest.raises(TypeError, match="missing"):
            row.function(*good[:count])
    with pytest.raises(TypeError, match="takes"):
        row.function(*good, 0)


@pytest.mark.parametrize("module", sheet.MODULES)
def test_there_is_no_name_that_is_not_in_the_table(module):
    known = {name for row in sheet.ROWS for head, _, name in [row.name.rpartition(".")] if head == module}
    known |= {name for head, _, name in (part.rpartition(".") for part in sheet.MODULES) if head == module}
    public = {name for name in vars(importlib.import_module(module)) if not name.startswith("_")}
    assert public == known



def test_all_names_of_the_package_are_offered():
    public = {name for name in vars(acl) if not name.startswith("_")}
    # `from acl import *` is not to replace Python's sys.
    assert set(acl.__all__) == public - {"sys"}


TYPES = {
    "int": int,
    "float": float,
    "str": str,
    "text": (str, type(None)),
    "bytes": bytes,
    "dict": dict,
    "ndarray": numpy.ndarray,
}


def check_shape(row, result):
    """Asserts that a result has the documented shape. Returns the code, or None where there is none."""
    outputs = [name.partition(":")[2] for name in row.returns if name != "ret"]
    if len(row.returns) == 1:
        result = (result,)
    assert type(result) is tuple and len(result) == len(row.returns), result
    for kind, output in zip(outputs, result):
        kinds = TYPES[kind] if isinstance(TYPES[kind], tuple) else (TYPES[kind],)
        assert type(output) in kinds, result
    if not row.has_ret:
        return None
    assert type(result[-1]) is int, result
    return result[-1]


class World:
    """What calls that succeed need. Every attribute is made when it is first asked for."""

    def __init__(self, stream):
        self.stream = stream
        self.plain = numpy.zeros(3 * 4096, numpy.uint8)
        self.page = self.plain.ctypes.data + -self.plain.ctypes.data % 4096

    def __getattr__(self, name):
        value = getattr(self, "make_" + name)()
        setattr(self, name, value)
        return value

    def make_device(self):
        return kit.Memory("device", 4096)

    def make_other(self):
        return kit.Memory("device", 4096)

    def make_host(self):
        return kit.Memory("pinned", 4096)

    def make_descriptor(self):
        return kit.Memory("device", ok(acl.rt.get_memcpy_desc_size(6)))

    def make_event(self):
        event = ok(acl.rt.create_event_with_flag(9))
        ok(acl.rt.record_event(event, self.stream))
        ok(acl.rt.synchronize_stream(self.stream))
        return event

    def make_reserved(self):
        return ok(acl.rt.reserve_mem_address(GRANULE, 0, 0, 0))

    def make_physical(self):
        return ok(acl.rt.malloc_physical(GRANULE, sheet.HARMLESS["properties"], 0))

    def make_mapped(self):
        ok(acl.rt.map_mem(self.reserved, GRANULE, 0, self.physical, 0))
        return self.reserved

    def make_key(self):
        return ok(acl.rt.ipc_mem_get_export_key(self.device.addr, 4096, 65, 1))

    def make_notify(self):
        return kit.notify()

    def make_notify_key(self):
        return kit.notify_key(self.notify, 2)

    def make_registered(self):
        ok(acl.rt.host_register_v2(self.page, 4096, 2))
        return self.page

    def end(self):
        """Memory that goes back to Python is not registered."""
        assert acl.rt.host_unregister(self.page) in (0, 507911)


GRANULE = 2 << 20


def with_a_thread(name):
    """A call that has a thread serve one callback of a stream, and returns what the function of this name returned."""

    def call(world):
        subscribed, results = threading.Event(), {}

        def serve(args):
            assert subscribed.wait(kit.LIMIT)
            results["process_report"] = rt.process_report(-1)

        thread = ok(util.start_thread(serve, []))
        results["subscribe_report"] = rt.subscribe_report(thread, world.stream)
        subscribed.set()
        results["launch_callback"] = rt.launch_callback(len, [], 1, world.stream)
        ok(util.stop_thread(thread))
        results["unsubscribe_report"] = rt.unsubscribe_report(thread, world.stream)
        return results[name]

    return call


def batch(world):
    location = {"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}
    return acl.rt.memcpy_batch_async(
        [world.device.addr], [64], [world.host.addr], [64], 1, [location], [0], 1, world.stream
    )


def registered(world):
    result = acl.rt.host_register(world.page, 4096, 0)
    ok(acl.rt.host_unregister(world.page))
    return result


def registered_v2(world):
    result = acl.rt.host_register_v2(world.page, 4096, 0x10000000)
    ok(acl.rt.host_unregister(world.page))
    return result


def one_more_context(world):
    old = ok(acl.rt.get_context())
    context, ret = acl.rt.create_context(0)
    ok(acl.rt.set_context(old))
    return context, ret


def waits_for_its_end(world):
    thread = ok(acl.util.start_thread(len, [1]))
    return acl.util.stop_thread(thread)


def unmapped(world):
    return acl.rt.unmap_mem(world.mapped)


# A call of each function that succeeds.
SUCCEED = {
    "acl.rt.memcpy": lambda w: rt.memcpy(w.device.addr, 64, w.host.addr, 64, 1),
    "acl.rt.memcpy_async": lambda w: rt.memcpy_async(w.device.addr, 64, w.host.addr, 64, 1, w.stream),
    "acl.rt.memcpy_async_with_condition": lambda w: rt.memcpy_async_with_condition(
        w.device.addr, 64, w.host.addr, 64, 1, w.stream
    ),
    "acl.rt.memcpy2d": lambda w: rt.memcpy2d(w.device.addr, 64, w.host.addr, 64, 16, 2, 1),
    "acl.rt.memcpy2d_async": lambda w: rt.memcpy2d_async(w.device.addr, 64, w.host.addr, 64, 16, 2, 1, w.stream),
    "acl.rt.get_memcpy_desc_size": lambda w: rt.get_memcpy_desc_size(6),
    "acl.rt.set_memcpy_desc": lambda w: rt.set_memcpy_desc(w.descriptor.addr, 6, w.device.addr, w.other.addr, 64, 0),
    "acl.rt.memcpy_async_with_desc": lambda w: (
        ok(rt.set_memcpy_desc(w.descriptor.addr, 6, w.device.addr, w.other.addr, 64, 0)),
        rt.memcpy_async_with_desc(w.descriptor.addr, 6, w.stream),
    )[1],
    "acl.rt.memset": lambda w: rt.memset(w.device.addr, 64, 1, 64),
    "acl.rt.memset_async": lambda w: rt.memset_async(w.device.addr, 64, 1, 64, w.stream),
    "acl.rt.reduce_async": lambda w: rt.reduce_async(w.device.addr, w.other.addr, 64, 10, 3, w.stream, 0),
    "acl.rt.memcpy_batch_async": batch,
    "acl.util.bytes_to_ptr": lambda w: util.bytes_to_ptr(b"bytes"),
    "acl.util.ptr_to_bytes": lambda w: util.ptr_to_bytes(w.host.addr, 8),
    "acl.util.numpy_to_ptr": lambda w: util.numpy_to_ptr(w.plain),
    "acl.util.numpy_contiguous_to_ptr": lambda w: util.numpy_contiguous_to_ptr(w.plain),
    "acl.util.ptr_to_numpy": lambda w: util.ptr_to_numpy(w.host.addr, (2, 4), 2),
    "acl.util.start_thread": lambda w: util.start_thread(len, [1]),
    "acl.util.stop_thread": waits_for_its_end,
    "acl.get_recent_err_msg": lambda w: (kit.fails(100000, rt.free(0)), acl.get_recent_err_msg())[1],
    "acl.get_soc_name": lambda w: acl.get_soc_name(),
    "acl.get_version": lambda w: acl.get_version(),
    "acl.get_version_str": lambda w: acl.get_version_str("runtime"),
    "acl.sys.get_version_str": lambda w: acl.sys.get_version_str("runtime"),
    "acl.rt.get_run_mode": lambda w: rt.get_run_mode(),
    "acl.rt.set_device": lambda w: rt.set_device(0),
    "acl.rt.reset_device": lambda w: (ok(rt.set_device(0)), rt.reset_device(0))[1],
    "acl.rt.get_device": lambda w: rt.get_device(),
    "acl.rt.get_device_count": lambda w: rt.get_device_count(),
    "acl.rt.device_can_access_peer": lambda w: rt.device_can_access_peer(0, 1),
    "acl.rt.device_enable_peer_access": lambda w: rt.device_enable_peer_access(1, 0),
    "acl.rt.device_disable_peer_access": lambda w: rt.device_disable_peer_access(1),
    "acl.rt.device_peer_access_status": lambda w: rt.device_peer_access_status(0, 1),
    "acl.rt.get_mem_info": lambda w: rt.get_mem_info(1),
    "acl.rt.get_device_utilization_rate": lambda w: rt.get_device_utilization_rate(0),
    "acl.rt.create_context": one_more_context,
    "acl.rt.destroy_context": lambda w: rt.destroy_context(ok(one_more_context(w))),
    "acl.rt.set_context": lambda w: rt.set_context(ok(rt.get_context())),
    "acl.rt.get_context": lambda w: rt.get_context(),
    "acl.rt.create_stream": lambda w: rt.create_stream(),
    "acl.rt.create_stream_with_config": lambda w: rt.create_stream_with_config(0, 3),
    "acl.rt.destroy_stream": lambda w: rt.destroy_stream(ok(rt.create_stream())),
    "acl.rt.destroy_stream_force": lambda w: rt.destroy_stream_force(ok(rt.create_stream())),
    "acl.rt.synchronize_stream": lambda w: rt.synchronize_stream(w.stream),
    "acl.rt.synchronize_stream_with_timeout": lambda w: rt.synchronize_stream_with_timeout(w.stream, -1),
    "acl.rt.synchronize_device": lambda w: rt.synchronize_device(),
    "acl.rt.synchronize_device_with_timeout": lambda w: rt.synchronize_device_with_timeout(-1),
    "acl.rt.stream_query": lambda w: rt.stream_query(w.stream),
    "acl.rt.stream_abort": lambda w: rt.stream_abort(w.stream),
    "acl.rt.query_device_status": lambda w: rt.query_device_status(1),
    "acl.rt.device_task_abort": lambda w: rt.device_task_abort(1, 0),
    "acl.float16_to_float": lambda w: acl.float16_to_float(0x3C00),
    "acl.float_to_float16": lambda w: acl.float_to_float16(1.0),
    "acl.rt.set_stream_attribute": lambda w: rt.set_stream_attribute(w.stream, 3, {"userCustomTag": 7}),
    "acl.rt.get_stream_attribute": lambda w: rt.get_stream_attribute(w.stream, 3),
    "acl.rt.set_exception_info_callback": lambda w: rt.set_exception_info_callback(None),
    "acl.rt.get_task_id_from_exception_info": lambda w: rt.get_task_id_from_exception_info(1),
    "acl.rt.get_stream_id_from_exception_info": lambda w: rt.get_stream_id_from_exception_info(1),
    "acl.rt.get_thread_id_from_exception_info": lambda w: rt.get_thread_id_from_exception_info(1),
    "acl.rt.get_device_id_from_exception_info": lambda w: rt.get_device_id_from_exception_info(1),
    "acl.rt.get_error_code_from_exception_info": lambda w: rt.get_error_code_from_exception_info(1),
    "acl.rt.set_stream_overflow_switch": lambda w: rt.set_stream_overflow_switch(w.stream, 1),
    "acl.rt.get_stream_overflow_switch": lambda w: rt.get_stream_overflow_switch(w.stream),
    "acl.rt.get_overflow_status": lambda w: rt.get_overflow_status(w.device.addr, 64, w.stream),
    "acl.rt.reset_overflow_status": lambda w: rt.reset_overflow_status(w.stream),
    "acl.rt.set_op_wait_timeout": lambda w: rt.set_op_wait_timeout(0),
    "acl.rt.device_get_stream_priority_range": lambda w: rt.device_get_stream_priority_range(),
    "acl.rt.get_logic_dev_id_by_user_dev_id": lambda w: rt.get_logic_dev_id_by_user_dev_id(0),
    "acl.rt.get_primary_ctx_state": lambda w: rt.get_primary_ctx_state(0),
    "acl.rt.cmo_async": lambda w: rt.cmo_async(w.device.addr, 64, 0, w.stream),
    "acl.rt.value_write": lambda w: rt.value_write(w.device.addr, 5, 0, w.stream),
    "acl.rt.value_wait": lambda w: (
        ok(rt.value_write(w.device.addr, 5, 0, w.stream)),
        rt.value_wait(w.device.addr, 5, 1, w.stream),
    )[1],
    "acl.rt.set_device_res_limit": lambda w: rt.set_device_res_limit(0, 0, 1),
    "acl.rt.get_device_res_limit": lambda w: rt.get_device_res_limit(0, 1),
    "acl.rt.reset_device_res_limit": lambda w: rt.reset_device_res_limit(0),
    "acl.rt.set_stream_res_limit": lambda w: rt.set_stream_res_limit(w.stream, 1, 1),
    "acl.rt.get_stream_res_limit": lambda w: rt.get_stream_res_limit(w.stream, 1),
    "acl.rt.reset_stream_res_limit": lambda w: rt.reset_stream_res_limit(w.stream),
    "acl.rt.use_stream_res_in_current_thread": lambda w: rt.use_stream_res_in_current_thread(w.stream),
    "acl.rt.unuse_stream_res_in_current_thread": lambda w: (
        ok(rt.use_stream_res_in_current_thread(w.stream)),
        rt.unuse_stream_res_in_current_thread(w.stream),
    )[1],
    "acl.rt.get_res_in_current_thread": lambda w: rt.get_res_in_current_thread(0),
    "acl.rt.create_event": lambda w: rt.create_event(),
    "acl.rt.create_event_with_flag": lambda w: rt.create_event_with_flag(1),
    "acl.rt.create_event_ex_with_flag": lambda w: rt.create_event_ex_with_flag(1),
    "acl.rt.destroy_event": lambda w: rt.destroy_event(ok(rt.create_event())),
    "acl.rt.record_event": lambda w: rt.record_event(w.event, w.stream),
    "acl.rt.stream_wait_event": lambda w: rt.stream_wait_event(w.stream, w.event),
    "acl.rt.reset_event": lambda w: rt.reset_event(w.event, w.stream),
    "acl.rt.query_event": lambda w: rt.query_event(w.event),
    "acl.rt.query_event_status": lambda w: rt.query_event_status(w.event),
    "acl.rt.query_event_wait_status": lambda w: rt.query_event_wait_status(w.event),
    "acl.rt.synchronize_event": lambda w: rt.synchronize_event(w.event),
    "acl.rt.synchronize_event_with_timeout": lambda w: rt.synchronize_event_with_timeout(w.event, -1),
    "acl.rt.event_elapsed_time": lambda w: rt.event_elapsed_time(w.event, w.event),
    "acl.rt.event_get_timestamp": lambda w: rt.event_get_timestamp(w.event),
    "acl.rt.subscribe_report": with_a_thread("subscribe_report"),
    "acl.rt.unsubscribe_report": with_a_thread("unsubscribe_report"),
    "acl.rt.launch_callback": with_a_thread("launch_callback"),
    "acl.rt.process_report": with_a_thread("process_report"),
    "acl.rt.malloc": lambda w: rt.malloc(64, 0),
    "acl.rt.malloc_align32": lambda w: rt.malloc_align32(64, 0),
    "acl.rt.malloc_cached": lambda w: rt.malloc_cached(64, 0),
    "acl.rt.malloc_with_cfg": lambda w: rt.malloc_with_cfg(64, 0, {}),
    "acl.rt.malloc_for_task_scheduler": lambda w: rt.malloc_for_task_scheduler(64, 0, {}),
    "acl.rt.free": lambda w: rt.free(ok(rt.malloc(64, 0))),
    "acl.rt.malloc_host": lambda w: rt.malloc_host(64),
    "acl.rt.malloc_host_with_cfg": lambda w: rt.malloc_host_with_cfg(64, {}),
    "acl.rt.free_host": lambda w: rt.free_host(ok(rt.malloc_host(64))),
    "acl.rt.host_register": registered,
    "acl.rt.host_register_v2": registered_v2,
    "acl.rt.host_get_device_pointer": lambda w: rt.host_get_device_pointer(w.registered, 0),
    "acl.rt.host_unregister": lambda w: rt.host_unregister(w.registered),
    "acl.rt.reserve_mem_address": lambda w: rt.reserve_mem_address(GRANULE, 0, 0, 0),
    "acl.rt.malloc_physical": lambda w: rt.malloc_physical(GRANULE, sheet.HARMLESS["properties"], 0),
    "acl.rt.map_mem": lambda w: rt.map_mem(w.reserved, GRANULE, 0, w.physical, 0),
    "acl.rt.unmap_mem": unmapped,
    "acl.rt.free_physical": lambda w: rt.free_physical(w.physical),
    "acl.rt.release_mem_address": lambda w: rt.release_mem_address(w.reserved),
    "acl.rt.ipc_mem_get_export_key": lambda w: rt.ipc_mem_get_export_key(w.device.addr, 4096, 65, 0),
    "acl.rt.ipc_mem_import_by_key": lambda w: rt.ipc_mem_import_by_key(w.key, 0),
    "acl.rt.ipc_mem_close": lambda w: rt.ipc_mem_close(w.key),
    "acl.rt.ipc_mem_set_import_pid": lambda w: rt.ipc_mem_set_import_pid(w.key, [1]),
    "acl.rt.notify_batch_reset": lambda w: rt.notify_batch_reset([w.notify]),
    "acl.rt.notify_set_import_pid": lambda w: w.notify_key and rt.notify_set_import_pid(w.notify, [1]),
    "acl.rt.notify_import_by_key": lambda w: rt.notify_import_by_key(w.notify_key, 0),
}

# These end what the other tests of this process use.
ELSEWHERE = ["acl.init", "acl.finalize", "acl.finalize_reference", "acl.rt.reset_device_force"]


def test_every_row_is_called():
    assert sorted([*SUCCEED, *ELSEWHERE]) == sorted(row.name for row in sheet.ROWS)


@pytest.mark.parametrize("row", [row for row in sheet.ROWS if row.name in SUCCEED], ids=str)
def test_success_has_the_documented_shape(row, stream):
    world = World(stream)
    ret = check_shape(row, SUCCEED[row.name](world))
    assert ret in (0, None), kit.message()
    ok(rt.synchronize_stream(stream))
    world.end()


def test_success_of_what_ends_things_has_the_documented_shape():
    printed = kit.passes("""
        import acl
        print({
            "acl.init": acl.init(),
            "acl.rt.reset_device_force": (acl.rt.set_device(0), acl.rt.reset_device_force(0))[1],
            "acl.finalize_reference": acl.finalize_reference(),
            "acl.finalize": (acl.init(), acl.finalize())[1],
        })
    """)
    results = ast.literal_eval(printed)
    rows = [row for row in sheet.ROWS if row.name in ELSEWHERE]
    assert [check_shape(row, results[row.name]) for row in rows] == [0] * 4


# A child of a process that used acl gets 107002 from every call: the one failure that all functions have.
CHILD = """
    import os, sys, threading
    import acl, kit, sheet
    acl.init()
    kit.ok(acl.rt.set_device(0))
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    results = {}
    for row in sheet.ROWS:
        if row.has_ret and not row.name.startswith("acl.util"):
            results[row.name] = row.function(*sheet.harmless(row))
    print(results)
    sys.stdout.flush()
    os._exit(0)
"""


def test_failure_has_the_documented_shape():
    results = ast.literal_eval(kit.passes(CHILD))
    rows = [row for row in sheet.ROWS if row.has_ret and not row.name.startswith("acl.util")]
    assert len(results) == len(rows) == 113
    for row in rows:
        assert check_shape(row, results[row.name]) == 107002, row.name
        for output in results[row.name][:-1] if len(row.returns) > 1 else []:
            nothing = not any(output.values()) if isinstance(output, dict) else output in (0, "", kit.NO_PIECE)
            assert nothing, f"{row.name} failed, and returned {output}"


def test_failure_of_stop_thread_is_a_bare_code():
    assert acl.util.stop_thread(1) == 107000


@pytest.mark.parametrize("name", sheet.MODULES[1:])
def test_parts_are_modules(name):
    part = importlib.import_module(name)
    assert isinstance(part, types.ModuleType) and part.__name__ == name and part.__doc__
    assert getattr(acl, name.partition(".")[2]) is part
