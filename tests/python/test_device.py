"""Devices and contexts from Python."""

import threading

import pytest

import acl
import kit
from kit import Call, Gate, fails, ok, passes, refused

rt = acl.rt


def in_a_thread(body):
    """What a function returns, or raises, in a thread that has no context."""
    result = []

    def run():
        try:
            result.append((body(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = result[0]
    if error is not None:
        raise error
    return value


@pytest.mark.parametrize(
    "soc,form,mode",
    [("Ascend910B1", "ep", 1), ("Ascend310B1", "ep", 1), ("Ascend310B1", "rc", 0), ("Ascend310P3", "ctrlcpu", 0)],
)
def test_run_mode_tells_where_the_program_runs(soc, form, mode):
    program = "import acl; print(acl.rt.get_run_mode())"
    assert passes(program, env={"FERRY_SOC": soc, "FERRY_FORM": form}) == f"({mode}, 0)\n"


def test_devices_are_counted():
    program = "import acl; print(acl.rt.get_device_count(), acl.rt.set_device(2))"
    assert passes(program, env={"FERRY_DEVICES": "3"}) == "(3, 0) 0\n"
    visible = {"FERRY_DEVICES": "3", "ASCEND_RT_VISIBLE_DEVICES": "0,2"}
    assert passes(program, env=visible) == "(2, 0) 107001\n"


def test_a_thread_has_no_device_until_it_sets_one(device):
    def body():
        assert rt.get_device() == (0, 107002)
        assert rt.get_context() == (0, 107002)
        assert rt.malloc(64, 0) == (0, 107002)
        assert rt.get_mem_info(1) == (0, 0, 107002)
        refused(107002, rt.synchronize_device, naming=["aclrtSetDevice"])
        ok(rt.set_device(1))
        assert rt.get_device() == (1, 0)

    in_a_thread(body)
    assert rt.get_device() == (0, 0)


def test_there_is_no_device_of_a_bad_number(device):
    for number in (-1, 2, 2**31 - 1):
        for call in (rt.set_device, rt.reset_device, rt.reset_device_force, rt.create_context):
            refused(107001, call, number, naming=[f"device {number} does not exist"])
        assert rt.get_device_utilization_rate(number)[1] == 107001
    assert rt.get_device() == (0, 0)


def test_set_device_is_counted_and_the_last_reset_ends_the_default_context():
    passes("""
        import acl
        from kit import fails, ok
        for _ in range(3):
            ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        ok(acl.rt.reset_device(0))
        ok(acl.rt.reset_device(0))
        ok(acl.rt.synchronize_stream(stream))
        ok(acl.rt.reset_device(0))
        fails(107002, acl.rt.get_device())
        fails(107002, acl.rt.reset_device(0))
        fails(107002, acl.rt.reset_device_force(0))
        ok(acl.rt.set_device(0))
        fails(107017, acl.rt.synchronize_stream(stream))
    """)


def test_reset_device_force_ends_it_whatever_the_count():
    passes("""
        import acl
        from kit import fails, ok
        for _ in range(3):
            ok(acl.rt.set_device(0))
        memory = ok(acl.rt.malloc(64, 0))
        ok(acl.rt.reset_device_force(0))
        fails(107002, acl.rt.get_context())
        fails(107002, acl.rt.reset_device_force(0))
        # Memory stays the program's to free.
        ok(acl.rt.set_device(0))
        ok(acl.rt.free(memory))
    """)


def test_reset_device_waits_for_the_work():
    passes("""
        import acl
        from kit import Call, Memory, ok
        ok(acl.rt.set_device(0))
        host, device = Memory("pinned", 64, bytes(range(64))), Memory("device", 64)
        stream = ok(acl.rt.create_stream())
        # What holds the stream is in a context that stays.
        ok(acl.rt.create_context(0))
        helper, event = ok(acl.rt.create_stream()), ok(acl.rt.create_event_with_flag(1))
        ok(acl.rt.reset_event(event, helper))
        ok(acl.rt.synchronize_stream(helper))
        own = ok(acl.rt.get_context())
        ok(acl.rt.set_device(0))
        ok(acl.rt.stream_wait_event(stream, event))
        ok(acl.rt.memcpy_async(device.addr, 64, host.addr, 64, 1, stream))
        ok(acl.rt.reset_device(0))
        ok(acl.rt.set_context(own))
        call = Call(acl.rt.reset_device, 0).blocked()
        ok(acl.rt.record_event(event, helper))
        ok(call.join())
        assert device.read() == bytes(range(64))
    """)


def test_synchronize_device_waits_for_all_streams(stream):
    other = ok(rt.create_stream())
    with Gate(stream), Gate(other) as gate:
        call = Call(rt.synchronize_device).blocked()
        gate.open()
        kit.settle()
        assert call.thread.is_alive(), "the other stream still has work"
    assert call.join() == 0
    ok(rt.destroy_stream(other))


def test_synchronize_device_with_timeout_gives_up(stream):
    ok(rt.synchronize_device_with_timeout(-1))
    ok(rt.synchronize_device_with_timeout(10000))
    with Gate(stream):
        refused(507046, rt.synchronize_device_with_timeout, 10)
        call = Call(rt.synchronize_device_with_timeout, -1).blocked()
    assert call.join() == 0
    for timeout in (0, -2):
        refused(107000, rt.synchronize_device_with_timeout, timeout, naming=[f"timeout is {timeout}"])


def test_peer_access_goes_one_way(device):
    assert rt.device_can_access_peer(0, 1) == (1, 0)
    assert rt.device_peer_access_status(0, 1) == (0, 0)
    ok(rt.device_enable_peer_access(1, 0))
    assert rt.device_peer_access_status(0, 1) == (1, 0)
    assert rt.device_peer_access_status(1, 0) == (0, 0)
    ok(rt.device_disable_peer_access(1))
    assert rt.device_peer_access_status(0, 1) == (0, 0)


def test_peer_access_makes_copies_between_devices_work(stream):
    here = kit.Memory("device", 64, bytes(range(64)))
    ok(rt.set_device(1))
    there = kit.Memory("device", 64)
    ok(rt.set_device(0))
    assert rt.memcpy_async(there.addr, 64, here.addr, 64, kit.D2D, stream) != 0
    ok(rt.device_enable_peer_access(1, 0))
    ok(rt.memcpy_async(there.addr, 64, here.addr, 64, kit.D2D, stream))
    ok(rt.synchronize_stream(stream))
    assert there.read() == bytes(range(64))
    ok(rt.device_disable_peer_access(1))


def test_peer_access_refuses_what_makes_no_sense(device):
    assert refused(107000, rt.device_can_access_peer, 1, 1, naming=["both 1"]) == 0
    assert refused(107001, rt.device_can_access_peer, 0, 9) == 0
    refused(107000, rt.device_enable_peer_access, 1, 1, naming=["flags is 1"])
    ok(rt.device_enable_peer_access(0, 0))  # itself: nothing happens
    refused(107000, rt.device_disable_peer_access, 0, naming=["current device"])
    refused(107001, rt.device_enable_peer_access, 9, 0)
    refused(107001, rt.device_disable_peer_access, 9)
    assert refused(107000, rt.device_peer_access_status, 9, 0) == 0


def test_peer_access_is_not_on_the_board():
    passes(
        """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        refused(207000, acl.rt.device_can_access_peer, 0, 1)
        refused(207000, acl.rt.device_enable_peer_access, 1, 0)
        """,
        env={"FERRY_SOC": "Ascend310B1"},
    )


def test_mem_info_goes_down_and_up():
    passes(
        """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        free, total = ok(acl.rt.get_mem_info(1))
        assert free == total == 64 << 20
        memory = ok(acl.rt.malloc((1 << 20) + 1, 1))
        assert ok(acl.rt.get_mem_info(1)) == (total - (2 << 20), total)
        assert ok(acl.rt.get_mem_info(0)) == (0, 0)
        ok(acl.rt.free(memory))
        assert ok(acl.rt.get_mem_info(1)) == (total, total)
        for attr in (-1, 18):
            assert refused(107000, acl.rt.get_mem_info, attr, naming=[f"attr is {attr}"]) == (0, 0)
        # More than there is.
        refused(207001, acl.rt.malloc, 65 << 20, 0, naming=["67108864"])
        """,
        env={"FERRY_DEVICE_MEMORY": "64M"},
    )


def test_utilization_has_the_members_of_the_struct(device):
    info = ok(rt.get_device_utilization_rate(0))
    assert list(info) == [
        "cubeUtilization",
        "vectorUtilization",
        "aicpuUtilization",
        "memoryUtilization",
        "utilizationExtend",
    ]
    assert info["memoryUtilization"] == -1 and info["utilizationExtend"] == 0
    assert all(-1 <= info[name] <= 100 for name in list(info)[:4])


def test_contexts_are_made_current_and_bring_their_device(device):
    default = ok(rt.get_context())
    other = ok(rt.create_context(1))
    assert ok(rt.get_context()) == other and ok(rt.get_device()) == 1
    ok(rt.set_context(default))
    assert ok(rt.get_context()) == default and ok(rt.get_device()) == 0
    ok(rt.set_context(other))
    ok(rt.set_device(0))
    assert ok(rt.get_context()) == default, "set_device takes the default context"
    assert in_a_thread(lambda: (rt.set_context(other), rt.get_device())) == (0, (1, 0))
    ok(rt.destroy_context(other))


def test_contexts_that_are_none_are_refused(device):
    default, gone = ok(rt.get_context()), ok(rt.create_context(0))
    ok(rt.set_context(default))
    ok(rt.destroy_context(gone))
    for call in (rt.set_context, rt.destroy_context):
        refused(100000, call, 0, naming=["NULL"])
        refused(107017, call, 12345, naming=["0x3039"])
        refused(107017, call, gone, naming=["destroyed"])
    refused(107000, rt.destroy_context, default, naming=["aclrtResetDevice"])
    assert ok(rt.get_context()) == default, "a context that is refused leaves the old one"


def test_a_stream_belongs_to_its_context(stream):
    default, other = ok(rt.get_context()), ok(rt.create_context(0))
    refused(107003, rt.synchronize_stream, stream)
    fails(107003, rt.destroy_stream(stream))
    ok(rt.set_context(default))
    ok(rt.destroy_context(other))
    ok(rt.synchronize_stream(stream))
