"""Memory between processes, from Python: this process and another interpreter, which does what it is told over a pipe."""

import ast
import os
import subprocess
import sys

import pytest

import acl
import kit
from kit import Memory, ok, passes, refused

rt = acl.rt

SIZE, KEY = 4096, 65
LISTED, ANYONE = 0, 1  # flags of an export: with the white list of processes, without
PLAIN, PEER = 0, 1  # flags of an import: as it is, with peer access

PROGRAM = """
import sys
import acl, kit
from acl import rt
from kit import ok
kept = {}
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except Exception as error:
        print(repr(repr(error)), flush=True)
"""


class Partner:
    """Another process, on a device."""

    def __init__(self, device=0):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([kit.HERE, *sys.path])},
        )
        self.pid = self.process.pid
        ok(self.ask(f"rt.set_device({device})"))

    def ask(self, expression):
        """The value of an expression, over there."""
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return ast.literal_eval(self.process.stdout.readline())

    def read(self, address, size=SIZE):
        expression = "(lambda out: (rt.memcpy(acl.util.bytes_to_ptr(out), len(out), {}, len(out), 2), bytes(out)))(bytearray({}))"
        ret, content = self.ask(expression.format(address, size))
        ok(ret)
        return content

    def write(self, address, content):
        return self.ask(f"rt.memcpy({address}, {SIZE}, acl.util.bytes_to_ptr({content!r}), {len(content)}, 1)")

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(kit.LIMIT) == 0
        self.process.stdout.close()


@pytest.fixture
def partner():
    partner = Partner()
    yield partner
    if partner.process.returncode is None:
        partner.end()


@pytest.fixture
def memory(device):
    return Memory("device", SIZE, kit.pattern(SIZE))


def export(memory, flags=LISTED):
    return ok(rt.ipc_mem_get_export_key(memory.addr, SIZE, KEY, flags))


def test_two_processes_have_the_same_bytes(memory, partner):
    key = export(memory)
    assert type(key) is str and len(key) == KEY - 1 and key.isprintable()
    ok(rt.ipc_mem_set_import_pid(key, [partner.pid]))
    there = ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})"))
    assert partner.read(there) == kit.pattern(SIZE)
    ok(partner.write(there, b"written over there"))
    assert memory.read(18) == b"written over there"
    memory.write(b"written here", at=100)
    assert partner.read(there)[100:112] == b"written here"
    # The one who imported closes first.
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    assert partner.write(there, b"closed") == 107000
    ok(rt.ipc_mem_close(key))
    assert memory.read(18) == b"written over there"


def test_the_importer_gets_a_stream_of_its_own_to_the_memory(memory, partner):
    key = export(memory, ANYONE)
    there = ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})"))
    stream = ok(partner.ask("rt.create_stream()"))
    ok(partner.ask(f"rt.memset_async({there}, {SIZE}, 7, {SIZE}, {stream})"))
    ok(partner.ask(f"rt.synchronize_stream({stream})"))
    assert memory.read() == bytes([7]) * SIZE
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    ok(rt.ipc_mem_close(key))


def test_only_listed_processes_may_import(memory, partner):
    key, attempt = export(memory), "rt.ipc_mem_import_by_key({!r}, 0)"
    assert partner.ask(attempt.format(key)) == (0, 207006)
    ok(rt.ipc_mem_set_import_pid(key, [1, os.getpid()]))
    assert partner.ask(attempt.format(key)) == (0, 207006)
    assert "207006" in partner.ask("acl.get_recent_err_msg()")
    ok(rt.ipc_mem_set_import_pid(key, [partner.pid]))
    there = ok(partner.ask(attempt.format(key)))
    assert partner.read(there) == kit.pattern(SIZE)
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    # The list holds for several, and for the one who made it.
    here = ok(rt.ipc_mem_import_by_key(key, PLAIN))
    assert here != 0
    ok(rt.ipc_mem_close(key))


def test_without_a_list_anyone_may_import(memory, partner):
    key = export(memory, ANYONE)
    there = ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})"))
    assert partner.read(there) == kit.pattern(SIZE)
    # Imports of a key are counted: the memory goes with the last.
    assert ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})")) == there
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    assert partner.read(there) == kit.pattern(SIZE)
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    assert partner.ask(f"rt.ipc_mem_close({key!r})") == 107000
    ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})"))
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    ok(rt.ipc_mem_close(key))


def test_the_importer_keeps_what_the_exporter_freed(memory, partner):
    key = export(memory, ANYONE)
    there = ok(partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})"))
    ok(rt.ipc_mem_close(key))
    memory.free()
    assert partner.read(there) == kit.pattern(SIZE)
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    assert partner.ask(f"rt.ipc_mem_import_by_key({key!r}, {PLAIN})") == (0, 107000)


def test_the_importer_keeps_what_a_killed_exporter_had(device, partner):
    source = ok(partner.ask(f"rt.malloc({SIZE}, 0)"))
    ok(partner.write(source, kit.pattern(SIZE)))
    key = ok(partner.ask(f"rt.ipc_mem_get_export_key({source}, {SIZE}, {KEY}, {ANYONE})"))
    here = ok(rt.ipc_mem_import_by_key(key, PLAIN))
    partner.kill()
    content = bytearray(SIZE)
    ok(rt.memcpy(acl.util.bytes_to_ptr(content), SIZE, here, SIZE, kit.D2H))
    assert bytes(content) == kit.pattern(SIZE)
    ok(rt.ipc_mem_close(key))
    assert refused(507022, rt.ipc_mem_import_by_key, key, PLAIN, naming=["the exporter is gone"]) == 0


def test_an_import_may_enable_peer_access(memory):
    partner = Partner(device=1)
    key = export(memory, ANYONE)
    attempt, host = "rt.ipc_mem_import_by_key({!r}, {})", f"kept.setdefault('m', kit.Memory('device', {SIZE})).addr"
    target = partner.ask(host)
    copy = "(rt.memcpy_async({}, {}, {}, {}, 3, 0), rt.synchronize_stream(0))"
    there = ok(partner.ask(attempt.format(key, PLAIN)))
    assert partner.ask("rt.device_peer_access_status(1, 0)") == (0, 0)
    assert partner.ask(copy.format(target, SIZE, there, SIZE))[0] == 107000
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    there = ok(partner.ask(attempt.format(key, PEER)))
    assert partner.ask("rt.device_peer_access_status(1, 0)") == (1, 0)
    assert partner.ask(copy.format(target, SIZE, there, SIZE)) == (0, 0)
    assert partner.ask("kept['m'].read()") == kit.pattern(SIZE)
    ok(partner.ask(f"rt.ipc_mem_close({key!r})"))
    partner.end()
    ok(rt.ipc_mem_close(key))


def test_exports_that_are_refused(memory):
    host = Memory("pinned", SIZE)
    for length in (0, 64, 66, 100000):
        assert refused(107000, rt.ipc_mem_get_export_key, memory.addr, SIZE, length, LISTED, naming=[f"{length}", "65"]) == ""
    assert refused(107000, rt.ipc_mem_get_export_key, memory.addr, SIZE, KEY, 8, naming=["flags is"]) == ""
    for at in (memory.addr + 64, host.addr, 12345):
        assert refused(107000, rt.ipc_mem_get_export_key, at, SIZE, KEY, LISTED, naming=[kit.address(at)]) == ""
    assert refused(107000, rt.ipc_mem_get_export_key, memory.addr, 1 << 40, KEY, LISTED) == ""
    assert refused(100000, rt.ipc_mem_get_export_key, 0, SIZE, KEY, LISTED, naming=["NULL"]) == ""


def test_keys_that_are_none_are_refused(memory):
    key = export(memory, ANYONE)
    for wrong in ("", "no key", key[:-1], key + "x", "é" * 64):
        assert refused(107000, rt.ipc_mem_import_by_key, wrong, PLAIN) == 0
        refused(107000, rt.ipc_mem_set_import_pid, wrong, [1])
        refused(107000, rt.ipc_mem_close, wrong)
    assert refused(107000, rt.ipc_mem_import_by_key, key, 8, naming=["flags is"]) == 0
    ok(rt.ipc_mem_close(key))
    refused(107000, rt.ipc_mem_close, key)
    refused(107000, rt.ipc_mem_set_import_pid, key, [1])
    assert refused(107000, rt.ipc_mem_import_by_key, key, PLAIN) == 0


def test_the_list_of_processes_is_a_list(memory):
    key = export(memory)
    for wrong in (os.getpid(), (os.getpid(),), None, "1"):
        with pytest.raises(TypeError, match="'pid'"):
            rt.ipc_mem_set_import_pid(key, wrong)
    assert rt.ipc_mem_import_by_key(key, PLAIN) == (0, 207006)
    ok(rt.ipc_mem_set_import_pid(key, list(range(1, 1000)) + [os.getpid()]))
    ok(rt.ipc_mem_import_by_key(key, PLAIN))
    ok(rt.ipc_mem_close(key))


def test_importing_needs_a_context_and_a_product_that_can():
    passes("""
        import acl
        from kit import refused
        assert refused(107002, acl.rt.ipc_mem_import_by_key, "0" * 64, 0) == 0
    """)
    passes(
        """
        import acl
        from kit import ok, refused
        ok(acl.rt.set_device(0))
        memory = ok(acl.rt.malloc(4096, 0))
        assert refused(207000, acl.rt.ipc_mem_get_export_key, memory, 4096, 65, 0) == ""
        assert refused(207000, acl.rt.ipc_mem_import_by_key, "0" * 64, 0) == 0
        refused(207000, acl.rt.ipc_mem_set_import_pid, "0" * 64, [1])
        refused(207000, acl.rt.ipc_mem_close, "0" * 64)
        """,
        env={"FERRY_SOC": "Ascend310B1"},
    )


# proves: Y10
def test_another_process_imports_a_notify_if_it_is_listed(device, stream, partner):
    notify = kit.notify()
    refused(107000, rt.notify_set_import_pid, notify, [partner.pid])  # it has no key yet
    key = kit.notify_key(notify, 0)
    attempt = f"rt.notify_import_by_key({key!r}, 0)"
    assert partner.ask(attempt) == (0, 507899)
    ok(rt.notify_set_import_pid(notify, [1, partner.pid]))
    there = ok(partner.ask(attempt))
    assert there != 0
    ok(kit.notify_wait(notify, stream))
    assert ok(rt.stream_query(stream)) == kit.NOT_READY
    ok(partner.ask(f"kit.notify_record({there})"))
    ok(partner.ask("rt.synchronize_stream(0)"))
    ok(rt.synchronize_stream(stream))
    # The one who imported it does not wait for it.
    assert partner.ask(f"kit.notify_wait({there})") == 107000
    assert partner.ask(f"rt.notify_import_by_key({key!r}, 1)") == (0, 107000)


# proves: Y7 Y10
def test_a_reset_takes_a_list_of_notifies(device, stream):
    notifies = [kit.notify() for _ in range(3)]
    for notify in notifies:
        ok(kit.notify_record(notify, stream))
    ok(rt.synchronize_stream(stream))
    refused(107000, rt.notify_batch_reset, [])
    refused(107017, rt.notify_batch_reset, [*notifies, 1])
    ok(rt.notify_batch_reset(notifies[:2]))
    ok(kit.notify_wait(notifies[2], stream))
    ok(rt.synchronize_stream(stream))
    ok(kit.notify_wait(notifies[0], stream))
    assert ok(rt.stream_query(stream)) == kit.NOT_READY
    ok(kit.notify_record(notifies[0]))
    ok(rt.synchronize_stream(stream))
