"""A suite as a project has it that is tested in CI: one test is right, one writes memory that a copy in flight uses."""

import acl
import pytest


def ok(result):
    *outputs, ret = result if isinstance(result, tuple) else (result,)
    assert ret == 0, acl.get_recent_err_msg()
    return outputs[0] if outputs else None


@pytest.fixture(scope="module")
def stream():
    ok(acl.init())
    ok(acl.rt.set_device(0))
    yield ok(acl.rt.create_stream())


def upload(stream, waits):
    host, device = ok(acl.rt.malloc_host(4096)), ok(acl.rt.malloc(4096, 0))
    ok(acl.rt.memset(host, 4096, 1, 4096))
    ok(acl.rt.memcpy_async(device, 4096, host, 4096, 1, stream))
    if waits:
        ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.memset(host, 4096, 2, 4096))
    ok(acl.rt.synchronize_stream(stream))


def test_right(stream):
    upload(stream, True)


def test_wrong(stream):
    upload(stream, False)
