"""The runtime: devices, contexts, streams, events, memory and every way of copying it.

Addresses and handles are ints. Every function returns its code, 0 for success, alone or behind its outputs; help() of a function
tells the rest.
"""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypedDict, TypeVar, type_check_only

from numpy import integer
from numpy.typing import NDArray
from typing_extensions import Buffer, NotRequired, TypeAlias

_T = TypeVar("_T")

# An int, or what has an index, such as NumPy's integers.
_Int: TypeAlias = SupportsIndex

# aclrtStreamAttrValue: the one key of the attribute.
_StreamAttribute: TypeAlias = dict[str, int]

# What one-dimensional integers are taken from: a list or tuple of ints, or an array that is read where it lies.
# (NumPy's arrays are buffers to type checkers from Python 3.12 on. Without NumPy its types are Any.)
_Sizes: TypeAlias = Sequence[_Int] | NDArray[integer[Any]] | Buffer

# C's structs, as dicts. The names exist for type checkers only: import them under TYPE_CHECKING.

@type_check_only
class MemLocation(TypedDict):
    """Where memory is: type 0 host, 1 device id, 2 host memory that acl did not allocate."""

    id: int
    type: int

@type_check_only
class BatchAttr(TypedDict):
    """What the memory of some pieces of a batch is."""

    dstLoc: MemLocation
    srcLoc: MemLocation
    rsv: NotRequired[list[int]]

@type_check_only
class MallocAttrValue(TypedDict, total=False):
    """The member that goes with the attribute's number."""

    moduleId: int
    deviceId: int
    vaFlag: int
    rsv: list[int]

@type_check_only
class MallocAttribute(TypedDict):
    """attr: 0 reserved, 1 moduleId, 2 deviceId, 3 vaFlag."""

    attr: int
    value: MallocAttrValue | int

@type_check_only
class MallocConfig(TypedDict, total=False):
    """{} for no configuration, else both."""

    attrs: Sequence[MallocAttribute]
    numAttrs: int

@type_check_only
class PhysicalMemProp(TypedDict):
    """What physical memory is to be."""

    handleType: int
    allocationType: int
    memAttr: int
    location: MemLocation
    reserve: NotRequired[int]

@type_check_only
class UtilizationInfo(TypedDict):
    """How busy a device is, in per cent; -1 where it cannot tell."""

    cubeUtilization: int
    vectorUtilization: int
    aicpuUtilization: int
    memoryUtilization: int
    utilizationExtend: int

# Copies and fills.

def memcpy(dst: _Int, dest_max: _Int, src: _Int, count: _Int, kind: _Int, /) -> int:
    """Copies count bytes from src to dst, before it returns."""

def memcpy_async(dst: _Int, dest_max: _Int, src: _Int, count: _Int, kind: _Int, stream: _Int, /) -> int:
    """Copies count bytes from src to dst in the order of the stream."""

def memcpy2d(dst: _Int, dpitch: _Int, src: _Int, spitch: _Int, width: _Int, height: _Int, kind: _Int, /) -> int:
    """Copies a matrix, row by row, before it returns."""

def memcpy2d_async(
    dst: _Int,
    dpitch: _Int,
    src: _Int,
    spitch: _Int,
    width: _Int,
    height: _Int,
    kind: _Int,
    stream: _Int,
    /,
) -> int:
    """Copies a matrix, row by row, in the order of the stream."""

def get_memcpy_desc_size(kind: _Int, /) -> tuple[int, int]:
    """Tells how many bytes of device memory a copy descriptor needs."""

def memcpy_async_with_desc(desc: _Int, kind: _Int, stream: _Int, /) -> int:
    """Copies inside a device as a descriptor says at the time the stream gets there."""

def memset(dev_ptr: _Int, max_count: _Int, value: _Int, count: _Int, /) -> int:
    """Fills count bytes with a value, before it returns."""

def memset_async(dev_ptr: _Int, max_count: _Int, value: _Int, count: _Int, stream: _Int, /) -> int:
    """Fills count bytes with a value in the order of the stream. As memset."""

def reduce_async(dst: _Int, src: _Int, count: _Int, kind: _Int, type: _Int, stream: _Int, reserve: _Int, /) -> int:
    """Combines count bytes at src with those at dst, element by element, into dst, in the order of the stream."""

def memcpy_async_with_condition(dst: _Int, dest_max: _Int, src: _Int, count: _Int, kind: _Int, stream: _Int, /) -> int:
    """Copies count bytes from src to dst in the order of the stream; waits if host memory is not acl's own."""

def set_memcpy_desc(desc: _Int, kind: _Int, src_addr: _Int, dst_addr: _Int, count: _Int, config: _Int, /) -> tuple[int, int]:
    """Writes source, destination and length into a copy descriptor."""

def memcpy_batch_async(
    dsts: _Sizes,
    dest_maxs: _Sizes,
    srcs: _Sizes,
    sizes: _Sizes,
    num_batches: _Int,
    attrs: Sequence[BatchAttr],
    attrs_indexes: _Sizes,
    num_attrs: _Int,
    stream: _Int,
    /,
) -> tuple[int, int]:
    """Copies many pieces, all from host to device or all from device to host, in the order of the stream."""

# Devices and contexts.

def get_run_mode() -> tuple[int, int]:
    """Tells where the program runs: 0 on the device (a board), 1 on a host with cards."""

def set_device(device_id: _Int, /) -> int:
    """Makes a device current in this thread, with its default context."""

def reset_device(device_id: _Int, /) -> int:
    """Takes one set_device back. With the last one the work of the device is waited for, and its default context ends."""

def reset_device_force(device_id: _Int, /) -> int:
    """Takes all set_device back at once. As reset_device."""

def get_device() -> tuple[int, int]:
    """Tells which device is current in this thread."""

def get_device_count() -> tuple[int, int]:
    """Counts the devices that the program sees."""

def query_device_status(device_id: _Int, /) -> tuple[int, int]:
    """Tells whether a device works."""

def device_task_abort(device_id: _Int, timeout: _Int, /) -> int:
    """Drops all work of a device, of every context. Whoever waits for one of its streams is told so: 107023."""

def device_get_stream_priority_range() -> tuple[int, int, int]:
    """Tells the lowest priority of streams and the highest: 7 and 0."""

def get_logic_dev_id_by_user_dev_id(user_dev_id: _Int, /) -> tuple[int, int]:
    """Tells the driver's number of a device, which is another one where ASCEND_RT_VISIBLE_DEVICES is set."""

def get_primary_ctx_state(device_id: _Int, /) -> tuple[int, int, int]:
    """Tells whether a device is set: whether acl.rt.set_device was called more often than it was taken back."""

def synchronize_device() -> int:
    """Waits for all work of the current device, of every context."""

def synchronize_device_with_timeout(timeout: _Int, /) -> int:
    """Waits for all work of the current device, for some time at most."""

def device_can_access_peer(dev_id: _Int, peer_dev_id: _Int, /) -> tuple[int, int]:
    """Tells whether a device can reach the memory of another one."""

def device_enable_peer_access(peer_dev_id: _Int, flag: _Int, /) -> int:
    """Lets the current device reach the memory of another one; the other direction needs a call of its own (X9)."""

def device_disable_peer_access(peer_dev_id: _Int, /) -> int:
    """Takes device_enable_peer_access back."""

def device_peer_access_status(device_id: _Int, peer_device_id: _Int, /) -> tuple[int, int]:
    """Tells whether a device was let reach the memory of another one."""

def get_mem_info(attr: _Int, /) -> tuple[int, int, int]:
    """Tells how much memory of the current device is free, and how much there is."""

def create_context(device_id: _Int, /) -> tuple[int, int]:
    """Makes a context on a device, and makes it current in this thread."""

def destroy_context(ctx: _Int, /) -> int:
    """Ends a context that create_context made, and waits for the work of its streams."""

def set_context(ctx: _Int, /) -> int:
    """Makes a context current in this thread, and its device with it. A new thread has none."""

def get_context() -> tuple[int, int]:
    """Tells which context is current in this thread."""

def get_device_utilization_rate(device_id: _Int, /) -> tuple[UtilizationInfo, int]:
    """Tells how busy a device is."""

# Streams.

def create_stream() -> tuple[int, int]:
    """Makes a stream of the current context."""

def destroy_stream(stream: _Int, /) -> int:
    """Waits for the work of a stream and ends it."""

def destroy_stream_force(stream: _Int, /) -> int:
    """Drops the work of a stream and ends it."""

def synchronize_stream(stream: _Int, /) -> int:
    """Waits for all work that was handed to a stream so far."""

def synchronize_stream_with_timeout(stream: _Int, timeout: _Int, /) -> int:
    """Waits for a stream, for some time at most."""

def stream_query(stream: _Int, /) -> tuple[int, int]:
    """Tells whether a stream has done its work. It does not wait."""

def stream_abort(stream: _Int, /) -> int:
    """Drops the work of a stream, which can be used again. Whoever waits for it is told so: 107023."""

def stream_wait_event(stream: _Int, event: _Int, /) -> int:
    """Has a stream wait for an event: what is handed to it from here on comes after what was recorded. The call does not wait."""

def set_stream_attribute(stream: _Int, stm_attr_type: _Int, value: _StreamAttribute, /) -> int:
    """Sets an attribute of a stream."""

def get_stream_attribute(stream: _Int, stm_attr_type: _Int, /) -> tuple[_StreamAttribute, int]:
    """Tells an attribute of a stream."""

def set_stream_overflow_switch(stream: _Int, flag: _Int, /) -> int:
    """Keeps whether a stream is to look for overflows. Nothing overflows here."""

def get_stream_overflow_switch(stream: _Int, /) -> tuple[int, int]:
    """Tells what set_stream_overflow_switch kept. As set_stream_overflow_switch."""

def get_overflow_status(outputAddr: _Int, outputSize: _Int, stream: _Int, /) -> int:
    """Writes an overflow status to device memory, in stream order: zeros, since nothing overflows here."""

def reset_overflow_status(stream: _Int, /) -> int:
    """Forgets overflows, of which there are none."""

def cmo_async(src: _Int, size: _Int, cmo_type: _Int, stream: _Int, /) -> int:
    """Gives a cache a hint, in stream order. There is no cache here: the arguments are looked at, and nothing else happens."""

def value_write(dev_addr: _Int, value: _Int, flag: _Int, stream: _Int, /) -> int:
    """Writes 64 bits of device memory, in stream order."""

def value_wait(devAddr: _Int, value: _Int, flag: _Int, stream: _Int, /) -> int:
    """Has a stream wait until 64 bits of device memory, whoever writes them, are as wanted. The call does not wait."""

def create_stream_with_config(priority: _Int, flag: _Int, /) -> tuple[int, int]:
    """Makes a stream with a priority and flags."""

# Events.

def create_event() -> tuple[int, int]:
    """Makes an event, for streams to wait for and for times. acl.rt.reset_event refuses it."""

def create_event_with_flag(flag: _Int, /) -> tuple[int, int]:
    """Makes an event for some uses."""

def create_event_ex_with_flag(flag: _Int, /) -> tuple[int, int]:
    """Makes an event for some uses, of the newer kind."""

def destroy_event(event: _Int, /) -> int:
    """Ends an event."""

def record_event(event: _Int, stream: _Int, /) -> int:
    """Records an event in a stream: it is reached when all that was handed to the stream before is done."""

def reset_event(event: _Int, stream: _Int, /) -> int:
    """Has a stream take an event back to not recorded when it gets here: later waits are for the next record."""

def query_event(event: _Int, /) -> tuple[int, int]:
    """Tells whether an event is reached, by the old numbers. Deprecated: use query_event_status."""

def query_event_status(event: _Int, /) -> tuple[int, int]:
    """Tells whether what an event recorded is done. It does not wait."""

def query_event_wait_status(event: _Int, /) -> tuple[int, int]:
    """Tells whether the streams that wait for an event have got past it."""

def synchronize_event(event: _Int, /) -> int:
    """Waits until an event is reached. One that was never recorded is not waited for."""

def synchronize_event_with_timeout(event: _Int, timeout: _Int, /) -> int:
    """Waits until an event is reached, for some time at most."""

def event_elapsed_time(start: _Int, end: _Int, /) -> tuple[float, int]:
    """Tells the time between two events that were reached."""

def event_get_timestamp(event: _Int, /) -> tuple[int, int]:
    """Tells when an event was reached."""

def set_op_wait_timeout(timeout: _Int, /) -> int:
    """Limits how long streams wait for events that they are told to wait for from here on, in the whole process."""

# Limits of cores.

def set_device_res_limit(device_id: _Int, type: _Int, value: _Int, /) -> int:
    """Limits the cores of a device for this process. The last one counts."""

def get_device_res_limit(device_id: _Int, type: _Int, /) -> tuple[int, int]:
    """Tells how many cores of a device this process may use: what was set, else what the product has."""

def reset_device_res_limit(device_id: _Int, /) -> int:
    """Ends all limits of a device."""

def set_stream_res_limit(stream: _Int, type: _Int, value: _Int, /) -> int:
    """Limits the cores of a stream. The last one counts."""

def get_stream_res_limit(stream: _Int, type: _Int, /) -> tuple[int, int]:
    """Tells how many cores a stream may use: what was set for it, else for its device, else what the product has."""

def reset_stream_res_limit(stream: _Int, /) -> int:
    """Ends all limits of a stream."""

def use_stream_res_in_current_thread(stream: _Int, /) -> int:
    """Has this thread use the limits of a stream. The last one counts."""

def unuse_stream_res_in_current_thread(stream: _Int, /) -> int:
    """Takes use_stream_res_in_current_thread back."""

def get_res_in_current_thread(type: _Int, /) -> tuple[int, int]:
    """Tells how many cores this thread may use: by the stream whose limits it uses, else by its device, else what the product has."""

# Memory.

def malloc(size: _Int, policy: _Int, /) -> tuple[int, int]:
    """Allocates device memory of the current device, 64-byte aligned, with 32 bytes or more to spare behind it."""

def malloc_align32(size: _Int, policy: _Int, /) -> tuple[int, int]:
    """Allocates device memory without bytes to spare behind it. As malloc."""

def malloc_cached(size: _Int, policy: _Int, /) -> tuple[int, int]:
    """Allocates device memory that is cached. As malloc, with the policies 0, 1, 2 and 6 only."""

def free(dev_ptr: _Int, /) -> int:
    """Frees device memory, at once (X4). Copies in flight that use it still may."""

def malloc_host(size: _Int, /) -> tuple[int, int]:
    """Allocates page-locked host memory: copies of it are asynchronous (X3)."""

def free_host(host_ptr: _Int, /) -> int:
    """Frees page-locked host memory, at once (X4). Copies in flight that use it still may; an array made of it must not be used."""

def host_register(ptr: _Int, size: _Int, type: _Int, /) -> tuple[int, int]:
    """Maps host memory of the program's for the device."""

def host_register_v2(ptr: _Int, size: _Int, flag: _Int, /) -> int:
    """Page-locks or maps host memory of the program's, by flag."""

def host_get_device_pointer(ptr_host: _Int, flag: _Int, /) -> tuple[int, int]:
    """Tells the address that the device has registered host memory at."""

def host_unregister(ptr: _Int, /) -> int:
    """Takes host_register or host_register_v2 back."""

def malloc_with_cfg(size: _Int, policy: _Int, cfg: MallocConfig, /) -> tuple[int, int]:
    """Allocates device memory with a configuration."""

def malloc_for_task_scheduler(size: _Int, policy: _Int, cfg: MallocConfig, /) -> tuple[int, int]:
    """Allocates device memory for task schedulers. As malloc_with_cfg."""

def malloc_host_with_cfg(size: _Int, cfg: MallocConfig, /) -> tuple[int, int]:
    """Allocates page-locked host memory with a configuration. As malloc_host; cfg as in malloc_with_cfg."""

def ipc_mem_get_export_key(dev_ptr: _Int, size: _Int, len: _Int, flags: _Int, /) -> tuple[str, int]:
    """Gives device memory a key by which other processes can import it."""

def ipc_mem_import_by_key(key: str, flags: _Int, /) -> tuple[int, int]:
    """Imports device memory that another process exported under a key. It is closed, not freed."""

def ipc_mem_close(key: str, /) -> int:
    """Ends the export or the import of a key, in the process that calls. Importers first, then the exporter."""

def ipc_mem_set_import_pid(key: str, pid: list[int], /) -> int:
    """Says which processes may import a key."""

# Notifies.

def notify_batch_reset(notifies: list[int], /) -> int:
    """Takes back records of notifies that no wait has used up."""

def notify_set_import_pid(notify: _Int, pid: list[int], /) -> int:
    """Says which processes may import a notify, which has a key already."""

def notify_import_by_key(key: str, flags: _Int, /) -> tuple[int, int]:
    """Imports a notify that another process exported under a key, to record it."""

# Virtual memory.

def reserve_mem_address(size: _Int, alignment: _Int, expect_ptr: _Int, flags: _Int, /) -> tuple[int, int]:
    """Reserves a range of addresses, without memory behind it."""

def release_mem_address(vir_ptr: _Int, /) -> int:
    """Gives a reserved range of addresses back. Nothing may be mapped there."""

def free_physical(handle: _Int, /) -> int:
    """Frees physical memory; as long as it is mapped it stays."""

def map_mem(vir_ptr: _Int, size: _Int, offset: _Int, handle: _Int, flags: _Int, /) -> int:
    """Maps physical memory at reserved addresses."""

def unmap_mem(vir_ptr: _Int, /) -> int:
    """Takes map_mem back."""

def malloc_physical(size: _Int, prop: PhysicalMemProp, flags: _Int, /) -> tuple[int, int]:
    """Allocates physical memory, without an address."""

# Callbacks.

def subscribe_report(thread_id: _Int, stream: _Int, /) -> int:
    """Has a thread run the callbacks of a stream."""

def unsubscribe_report(thread_id: _Int, stream: _Int, /) -> int:
    """Takes subscribe_report back. Callbacks that have not run never will."""

def launch_callback(fn: Callable[[list[_T]], object], user_data_list: list[_T], block_type: _Int, stream: _Int, /) -> int:
    """Has the stream's thread call fn(user_data_list) when the stream gets here."""

def process_report(timeout: _Int, /) -> int:
    """Runs the callbacks of this thread that are due; waits for one if there is none."""

# Tasks that failed.

def set_exception_info_callback(fn: Callable[[int], object] | None = None, /) -> int:
    """Has fn(exception_info) called for every task of a stream that fails, on any thread."""

def get_task_id_from_exception_info(info: _Int, /) -> int:
    """Tells the number of the task that failed, in its stream."""

def get_stream_id_from_exception_info(info: _Int, /) -> int:
    """Tells the number of the stream of the task that failed."""

def get_thread_id_from_exception_info(info: _Int, /) -> int:
    """Tells the system's number of the thread that began to use the stream last."""

def get_device_id_from_exception_info(info: _Int, /) -> int:
    """Tells the device of the task that failed."""

def get_error_code_from_exception_info(info: _Int, /) -> int:
    """Tells the code that the stream's next synchronise returns; 4294967295 if the device is lost."""
