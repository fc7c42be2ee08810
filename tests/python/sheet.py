"""The functions of the module, transcribed from the sheet of pyACL's documents, section by section.

Arguments are "name:kind", in the documented order. Kinds of ints are the C types: usize for addresses, handles and sizes, u64, u32,
i32. Returns are "name:type" for each output and "ret" for the code, which comes last.
"""

from typing import NamedTuple

import acl


class Row(NamedTuple):
    name: str
    arguments: tuple
    returns: tuple

    @property
    def function(self):
        found = acl
        for part in self.name.split(".")[1:]:
            found = getattr(found, part)
        return found

    @property
    def names(self):
        return [name for name, _ in self.arguments]

    @property
    def has_ret(self):
        return self.returns[-1] == "ret"

    def __str__(self):
        return self.name


def row(name, arguments, returns):
    arguments = tuple(tuple(argument.split(":")) for argument in arguments.split())
    return Row("acl." + name, arguments, tuple(returns.split()))


COPY = [
    row("rt.memcpy", "dst:usize dest_max:usize src:usize count:usize kind:i32", "ret"),
    row("rt.memcpy_async", "dst:usize dest_max:usize src:usize count:usize kind:i32 stream:usize", "ret"),
    row("rt.memcpy_async_with_condition", "dst:usize dest_max:usize src:usize count:usize kind:i32 stream:usize", "ret"),
    row("rt.memcpy2d", "dst:usize dpitch:usize src:usize spitch:usize width:usize height:usize kind:i32", "ret"),
    row(
        "rt.memcpy2d_async",
        "dst:usize dpitch:usize src:usize spitch:usize width:usize height:usize kind:i32 stream:usize",
        "ret",
    ),
    row("rt.get_memcpy_desc_size", "kind:i32", "desc_size:int ret"),
    row(
        "rt.set_memcpy_desc",
        "desc:usize kind:i32 src_addr:usize dst_addr:usize count:usize config:usize",
        "desc:int ret",
    ),
    row("rt.memcpy_async_with_desc", "desc:usize kind:i32 stream:usize", "ret"),
    row("rt.memset", "dev_ptr:usize max_count:usize value:i32 count:usize", "ret"),
    row("rt.memset_async", "dev_ptr:usize max_count:usize value:i32 count:usize stream:usize", "ret"),
    row("rt.reduce_async", "dst:usize src:usize count:u64 kind:i32 type:i32 stream:usize reserve:usize", "ret"),
]

# Section 2's proposal, and the only function that no document has.
OWN = [
    row(
        "rt.memcpy_batch_async",
        "dsts:array dest_maxs:array srcs:array sizes:array num_batches:usize attrs:attributes attrs_indexes:array "
        "num_attrs:usize stream:usize",
        "fail_index:int ret",
    ),
]

UTIL = [
    row("util.bytes_to_ptr", "data:bytes", "ptr:int"),
    row("util.ptr_to_bytes", "ptr:usize size:usize", "bytes_out:bytes"),
    row("util.numpy_to_ptr", "ndarray:ndarray", "ptr:int"),
    row("util.numpy_contiguous_to_ptr", "ndarray:ndarray", "ptr:int data_out:ndarray"),
    row("util.ptr_to_numpy", "ptr:usize shape:tuple npy_type:i32", "arr:ndarray"),
    row("util.start_thread", "func:callable args_list:list", "thr_id:int ret"),
    row("util.stop_thread", "thr_id:u64", "ret"),
]

RUNTIME = [
    row("init", "config_path:path", "ret"),
    row("finalize", "", "ret"),
    row("finalize_reference", "", "count:int ret"),
    row("get_recent_err_msg", "", "msg:text"),
    row("get_soc_name", "", "name:text"),
    row("get_version", "", "major:int minor:int patch:int ret"),
    row("get_version_str", "pkgName:str", "version_str:str ret"),
    row("sys.get_version_str", "pkgName:str", "version_str:str ret"),
    row("rt.get_run_mode", "", "run_mode:int ret"),
    row("rt.set_device", "device_id:i32", "ret"),
    row("rt.reset_device", "device_id:i32", "ret"),
    row("rt.reset_device_force", "device_id:i32", "ret"),
    row("rt.get_device", "", "device_id:int ret"),
    row("rt.get_device_count", "", "count:int ret"),
    row("rt.device_can_access_peer", "dev_id:i32 peer_dev_id:i32", "can:int ret"),
    row("rt.device_enable_peer_access", "peer_dev_id:i32 flag:u32", "ret"),
    row("rt.device_disable_peer_access", "peer_dev_id:i32", "ret"),
    row("rt.device_peer_access_status", "device_id:i32 peer_device_id:i32", "status:int ret"),
    row("rt.get_mem_info", "attr:i32", "free:int total:int ret"),
    row("rt.get_device_utilization_rate", "device_id:i32", "utilization_info:dict ret"),
    row("rt.create_context", "device_id:i32", "context:int ret"),
    row("rt.destroy_context", "ctx:usize", "ret"),
    row("rt.set_context", "ctx:usize", "ret"),
    row("rt.get_context", "", "context:int ret"),
    row("rt.create_stream", "", "stream:int ret"),
    row("rt.create_stream_with_config", "priority:priority flag:u32", "stream:int ret"),
    row("rt.destroy_stream", "stream:usize", "ret"),
    row("rt.destroy_stream_force", "stream:usize", "ret"),
    row("rt.synchronize_stream", "stream:usize", "ret"),
    row("rt.synchronize_stream_with_timeout", "stream:usize timeout:i32", "ret"),
    row("rt.synchronize_device", "", "ret"),
    row("rt.synchronize_device_with_timeout", "timeout:i32", "ret"),
    row("rt.stream_query", "stream:usize", "status:int ret"),
    row("rt.stream_abort", "stream:usize", "ret"),
    # Pages aclpythondevg_01_0013, 0015, 0069, 0076, 0077, 0102, 0130 to 0142, 1020, 1041, 1106.
    row("rt.query_device_status", "device_id:i32", "device_status:int ret"),
    row("rt.device_task_abort", "device_id:i32 timeout:u32", "ret"),
    row("float16_to_float", "value:half", "output:float"),
    row("float_to_float16", "value:real", "output:int"),
    row("rt.set_stream_attribute", "stream:usize stm_attr_type:i32 value:attribute", "ret"),
    row("rt.get_stream_attribute", "stream:usize stm_attr_type:i32", "value:dict ret"),
    row("rt.set_exception_info_callback", "fn:listener", "ret"),
    row("rt.get_task_id_from_exception_info", "info:info", "task_id:int"),
    row("rt.get_stream_id_from_exception_info", "info:info", "stream_id:int"),
    row("rt.get_thread_id_from_exception_info", "info:info", "thread_id:int"),
    row("rt.get_device_id_from_exception_info", "info:info", "device_id:int"),
    row("rt.get_error_code_from_exception_info", "info:info", "error_code:int"),
    row("rt.set_stream_overflow_switch", "stream:usize flag:u32", "ret"),
    row("rt.get_stream_overflow_switch", "stream:usize", "flag:int ret"),
    row("rt.get_overflow_status", "outputAddr:usize outputSize:usize stream:usize", "ret"),
    row("rt.reset_overflow_status", "stream:usize", "ret"),
    row("rt.set_op_wait_timeout", "timeout:u32", "ret"),
    # The page "function: NAME" of each in the runtime part of pyACL's reference.
    row("rt.device_get_stream_priority_range", "", "least:int greatest:int ret"),
    row("rt.get_logic_dev_id_by_user_dev_id", "user_dev_id:i32", "logic_dev_id:int ret"),
    row("rt.get_primary_ctx_state", "device_id:i32", "active:int flags:int ret"),
    row("rt.cmo_async", "src:usize size:usize cmo_type:i32 stream:usize", "ret"),
    row("rt.value_write", "dev_addr:usize value:u64 flag:u32 stream:usize", "ret"),
    row("rt.value_wait", "devAddr:usize value:u64 flag:u32 stream:usize", "ret"),
    row("rt.set_device_res_limit", "device_id:i32 type:i32 value:u32", "ret"),
    row("rt.get_device_res_limit", "device_id:i32 type:i32", "value:int ret"),
    row("rt.reset_device_res_limit", "device_id:i32", "ret"),
    row("rt.set_stream_res_limit", "stream:usize type:i32 value:u32", "ret"),
    row("rt.get_stream_res_limit", "stream:usize type:i32", "value:int ret"),
    row("rt.reset_stream_res_limit", "stream:usize", "ret"),
    row("rt.use_stream_res_in_current_thread", "stream:usize", "ret"),
    row("rt.unuse_stream_res_in_current_thread", "stream:usize", "ret"),
    row("rt.get_res_in_current_thread", "type:i32", "value:int ret"),
    row("rt.create_event", "", "event:int ret"),
    row("rt.create_event_with_flag", "flag:u32", "event:int ret"),
    row("rt.create_event_ex_with_flag", "flag:u32", "event:int ret"),
    row("rt.destroy_event", "event:usize", "ret"),
    row("rt.record_event", "event:usize stream:usize", "ret"),
    row("rt.stream_wait_event", "stream:usize event:usize", "ret"),
    row("rt.reset_event", "event:usize stream:usize", "ret"),
    row("rt.query_event", "event:usize", "status:int ret"),
    row("rt.query_event_status", "event:usize", "status:int ret"),
    row("rt.query_event_wait_status", "event:usize", "status:int ret"),
    row("rt.synchronize_event", "event:usize", "ret"),
    row("rt.synchronize_event_with_timeout", "event:usize timeout:i32", "ret"),
    row("rt.event_elapsed_time", "start:usize end:usize", "ms:float ret"),
    row("rt.event_get_timestamp", "event:usize", "timestamp:int ret"),
    row("rt.subscribe_report", "thread_id:u64 stream:usize", "ret"),
    row("rt.unsubscribe_report", "thread_id:u64 stream:usize", "ret"),
    row("rt.launch_callback", "fn:callable user_data_list:list block_type:i32 stream:usize", "ret"),
    row("rt.process_report", "timeout:i32", "ret"),
]

MEMORY = [
    row("rt.malloc", "size:usize policy:i32", "dev_ptr:int ret"),
    row("rt.malloc_align32", "size:usize policy:i32", "dev_ptr:int ret"),
    row("rt.malloc_cached", "size:usize policy:i32", "dev_ptr:int ret"),
    row("rt.malloc_with_cfg", "size:usize policy:i32 cfg:config", "dev_ptr:int ret"),
    row("rt.malloc_for_task_scheduler", "size:usize policy:i32 cfg:config", "dev_ptr:int ret"),
    row("rt.free", "dev_ptr:usize", "ret"),
    row("rt.malloc_host", "size:usize", "host_ptr:int ret"),
    row("rt.malloc_host_with_cfg", "size:u64 cfg:config", "host_ptr:int ret"),
    row("rt.free_host", "host_ptr:usize", "ret"),
    row("rt.host_register", "ptr:usize size:u64 type:i32", "dev_ptr:int ret"),
    row("rt.host_register_v2", "ptr:usize size:u64 flag:u32", "ret"),
    row("rt.host_get_device_pointer", "ptr_host:usize flag:u32", "ptr_device:int ret"),
    row("rt.host_unregister", "ptr:usize", "ret"),
    row("rt.reserve_mem_address", "size:usize alignment:usize expect_ptr:usize flags:u64", "vir_ptr:int ret"),
    row("rt.malloc_physical", "size:usize prop:properties flags:u64", "handle:int ret"),
    row("rt.map_mem", "vir_ptr:usize size:usize offset:usize handle:usize flags:u64", "ret"),
    row("rt.unmap_mem", "vir_ptr:usize", "ret"),
    row("rt.free_physical", "handle:usize", "ret"),
    row("rt.release_mem_address", "vir_ptr:usize", "ret"),
    row("rt.ipc_mem_get_export_key", "dev_ptr:usize size:usize len:usize flags:u64", "key:str ret"),
    row("rt.ipc_mem_import_by_key", "key:str flags:u64", "dev_ptr:int ret"),
    row("rt.ipc_mem_close", "key:str", "ret"),
    row("rt.ipc_mem_set_import_pid", "key:str pid:pids", "ret"),
    row("rt.notify_batch_reset", "notifies:handles", "ret"),
    row("rt.notify_set_import_pid", "notify:usize pid:pids", "ret"),
    row("rt.notify_import_by_key", "key:str flags:u64", "notify:int ret"),
]

ROWS = COPY + OWN + UTIL + RUNTIME + MEMORY

MODULES = ["acl", "acl.rt", "acl.util", "acl.sys"]

# Something of each kind that is of the right type, and harmless: nothing, or as good as.
HARMLESS = {
    "usize": 0,
    "u64": 0,
    "u32": 0,
    "i32": 0,
    "priority": 0,
    "path": "/nowhere/acl.json",
    "str": "",
    "bytes": b"",
    "ndarray": None,  # made where NumPy is there
    "tuple": (0,),
    "list": [],
    "callable": print,
    "pids": [],
    "handles": [],
    "config": {},
    "properties": {
        "handleType": 0,
        "allocationType": 0,
        "memAttr": 0,
        "location": {"id": 0, "type": 1},
        "reserve": 0,
    },
    "array": [],
    "attributes": [],
    "attribute": dict.fromkeys(["failureMode", "overflowSwitch", "userCustomTag", "cacheOpInfoSwitch", "streamPriority"], 0),
    "listener": None,
    "info": 0,
    "half": 0,
    "real": 0.0,
}


def harmless(a_row):
    """Arguments of the right types for a function."""
    import numpy

    made = {**HARMLESS, "ndarray": numpy.zeros(1)}
    return [made[kind] for _, kind in a_row.arguments]
