"""What programs set and ask beside their copies: status and work of devices, attributes, overflows, limits to waiting, failed tasks."""

import math
import struct

import pytest

import acl
import kit
from kit import ok, refused

rt = acl.rt


def test_devices_are_sound_and_others_do_not_exist():
    assert [ok(rt.query_device_status(device)) for device in (0, 1)] == [0, 0]
    for device in (2, -1, 2**40):
        refused(107001, rt.query_device_status, device)


def test_device_task_abort_drops_the_work_of_every_stream(stream):
    other = ok(rt.create_stream())
    for one in (stream, other):
        event = ok(rt.create_event_with_flag(1))
        ok(rt.reset_event(event, one))
        ok(rt.stream_wait_event(one, event))
    ok(rt.device_task_abort(0, 1000))
    assert [rt.synchronize_stream(one) for one in (stream, other)] == [107023, 107023]
    refused(107000, rt.device_task_abort, 0, 36 * 60 * 1000 + 1, naming=["timeout"])
    refused(107001, rt.device_task_abort, 2, 0)


def test_overflow_switch_and_status(stream):
    assert ok(rt.get_stream_overflow_switch(stream)) == 0
    ok(rt.set_stream_overflow_switch(stream, 1))
    assert ok(rt.get_stream_overflow_switch(stream)) == 1
    refused(107000, rt.set_stream_overflow_switch, stream, 2, naming=["flag is 2"])
    memory = kit.Memory("device", 128)
    ok(rt.memset(memory.addr, 128, 255, 128))
    ok(rt.get_overflow_status(memory.addr, 64, stream))
    ok(rt.reset_overflow_status(stream))
    ok(rt.synchronize_stream(stream))
    host = ok(rt.malloc_host(128))
    ok(rt.memcpy(host, 128, memory.addr, 128, 2))
    assert acl.util.ptr_to_bytes(host, 128) == bytes(64) + b"\xff" * 64
    refused(107000, rt.get_overflow_status, memory.addr, 65, stream, naming=["outputSize is 65"])


def test_a_wait_that_takes_too_long_fails_at_the_next_synchronise():
    # For the whole process, so in another one.
    kit.passes("""
        import acl, kit
        from kit import ok
        rt = acl.rt
        ok(rt.set_device(0))
        stream, event = ok(rt.create_stream()), ok(rt.create_event_with_flag(1))
        ok(rt.set_op_wait_timeout(1))
        ok(rt.reset_event(event, stream))
        other = ok(rt.create_stream())
        ok(rt.stream_wait_event(other, event))
        assert rt.synchronize_stream(other) == 107019
        assert "aclrtSetOpWaitTimeout" in acl.get_recent_err_msg()
        ok(rt.synchronize_stream(other))
    """)


def test_attributes_of_a_stream_are_dicts(stream):
    for attribute, key, value in [(2, "overflowSwitch", 1), (3, "userCustomTag", 2**32 - 1), (4, "cacheOpInfoSwitch", 1), (5, "streamPriority", 7)]:
        assert ok(rt.get_stream_attribute(stream, attribute)) == {key: 0}
        ok(rt.set_stream_attribute(stream, attribute, {key: value}))
        assert ok(rt.get_stream_attribute(stream, attribute)) == {key: value}
    refused(107000, rt.set_stream_attribute, stream, 5, {"streamPriority": 8}, naming=["streamPriority is 8"])
    refused(107000, rt.set_stream_attribute, stream, 3, {"userCustomTag": 2**32}, naming=["value['userCustomTag'] is 4294967296"])
    refused(107000, rt.set_stream_attribute, stream, 6, {}, naming=["stmAttrType is 6"])
    refused(107000, rt.get_stream_attribute, stream, 0, naming=["stmAttrType is 0"])
    with pytest.raises(TypeError, match="'streamPriority' is missing"):
        rt.set_stream_attribute(stream, 5, {"userCustomTag": 1})
    with pytest.raises(TypeError, match="the keys are"):
        rt.set_stream_attribute(stream, 5, {"priority": 1})


def test_floats_of_16_bits():
    for bits in [0, 1, 0x3C00, 0x3555, 0x7BFF, 0x7C00, 0x8000, 0xFBFF, 0xFC00]:
        (value,) = struct.unpack("<e", struct.pack("<H", bits))
        assert acl.float16_to_float(bits) == value
        assert acl.float_to_float16(value) == bits
    assert math.isnan(acl.float16_to_float(0x7E00)) and acl.float_to_float16(math.nan) & 0x7C00 == 0x7C00
    assert acl.float_to_float16(65520) == 0x7C00, "too large"
    for bits in (-1, 65536, 2**70):
        with pytest.raises(ValueError, match="it must be in 0 to 65535"):
            acl.float16_to_float(bits)


def test_a_function_hears_of_tasks_that_fail():
    # One function for the whole process, so in another one.
    kit.passes("""
        import threading
        import acl, kit
        from kit import ok
        rt = acl.rt
        ok(rt.set_device(1))
        stream = ok(rt.create_stream())
        desc = ok(rt.malloc(ok(rt.get_memcpy_desc_size(6)), 0))
        ok(rt.memset(desc, 32, 90, 32))
        told = []

        def hear(info):
            told.append((
                rt.get_device_id_from_exception_info(info),
                rt.get_error_code_from_exception_info(info),
                rt.get_thread_id_from_exception_info(info),
                rt.get_task_id_from_exception_info(info) > 0,
                rt.get_stream_id_from_exception_info(info) < 2**24,
                info,
            ))

        ok(rt.set_exception_info_callback(hear))
        for _ in range(3):
            ok(rt.memcpy_async_with_desc(desc, 6, stream))
            assert rt.synchronize_stream(stream) == 107000
        assert [one[:-1] for one in told] == [(1, 107000, threading.get_native_id(), True, True)] * 3, told
        over = told[0][-1]
        assert rt.get_task_id_from_exception_info(over) == 2**32 - 1
        assert rt.get_task_id_from_exception_info(2**70) == 2**32 - 1
        ok(rt.set_exception_info_callback())
        ok(rt.memcpy_async_with_desc(desc, 6, stream))
        assert rt.synchronize_stream(stream) == 107000 and len(told) == 3

        import sys
        raised = []
        sys.unraisablehook = lambda error: raised.append(error.exc_type)
        ok(rt.set_exception_info_callback(lambda info: 1 // 0))
        ok(rt.memcpy_async_with_desc(desc, 6, stream))
        assert rt.synchronize_stream(stream) == 107000
        assert raised == [ZeroDivisionError]
    """)


def test_a_stream_waits_for_a_value_that_another_one_writes(stream):
    other, cell = ok(rt.create_stream()), kit.Memory("device", 64)
    ok(rt.memset(cell.addr, 64, 0, 64))
    ok(rt.value_wait(cell.addr, 7, 1, stream))
    assert ok(rt.stream_query(stream)) == 1, "nobody has written it"
    ok(rt.value_write(cell.addr, 7, 0, other))
    ok(rt.synchronize_stream(stream))
    host = ok(rt.malloc_host(64))
    ok(rt.memcpy(host, 64, cell.addr, 64, 2))
    assert acl.util.ptr_to_bytes(host, 64) == (7).to_bytes(8, "little") + bytes(56)
    refused(107008, rt.value_write, cell.addr + 4, 7, 0, stream, naming=["devAddr"])
    refused(107000, rt.value_write, cell.addr, 7, 1, stream, naming=["flag is 1"])
    refused(107000, rt.value_wait, cell.addr, 7, 4, stream, naming=["flag is 4"])


def test_a_hint_to_a_cache_is_looked_at(stream):
    memory = kit.Memory("device", 64)
    ok(rt.cmo_async(memory.addr, 64, 0, stream))
    refused(207000, rt.cmo_async, memory.addr, 64, 1, stream, naming=["cmoType is 1"])
    ok(rt.synchronize_stream(stream))


def test_limits_of_cores_of_a_thread_come_before_those_of_its_device(stream):
    cores = ok(rt.get_device_res_limit(0, 1))
    ok(rt.set_device_res_limit(0, 1, cores - 1))
    ok(rt.set_stream_res_limit(stream, 1, cores - 2))
    told = lambda: [ok(rt.get_device_res_limit(0, 1)), ok(rt.get_stream_res_limit(stream, 1)), ok(rt.get_res_in_current_thread(1))]  # noqa: E731
    assert told() == [cores - 1, cores - 2, cores - 1]
    ok(rt.use_stream_res_in_current_thread(stream))
    assert told() == [cores - 1, cores - 2, cores - 2]
    ok(rt.unuse_stream_res_in_current_thread(stream))
    ok(rt.reset_stream_res_limit(stream))
    assert told() == [cores - 1] * 3
    ok(rt.reset_device_res_limit(0))
    assert told() == [cores] * 3
    refused(107000, rt.set_device_res_limit, 0, 1, cores + 1, naming=[f"value is {cores + 1}"])
    refused(107000, rt.set_stream_res_limit, stream, 2, 1, naming=["type is 2"])


def test_numbers_priorities_and_state_of_devices(stream):
    assert rt.device_get_stream_priority_range() == (7, 0, 0)
    assert rt.get_primary_ctx_state(0) == (1, 0, 0)
    kit.passes(
        """
        import acl
        rt = acl.rt
        assert rt.get_primary_ctx_state(0) == (0, 0, 0), "not set"
        assert [rt.get_logic_dev_id_by_user_dev_id(device) for device in (0, 1, 2)] == [(0, 0), (2, 0), (0, 107001)]
        """,
        env={"FERRY_DEVICES": "3", "ASCEND_RT_VISIBLE_DEVICES": "0,2"},
    )
