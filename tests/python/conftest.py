"""What every test of the module acl may use: a device, a stream, and an end for a test that hangs."""

import faulthandler
import os
import signal

import pytest

import acl
import kit

HANGS_AFTER = 120


def pytest_configure(config):
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # While tests run, 2 is a file of pytest's that is lost with the process.
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.stash[TERMINAL] = os.fdopen(os.dup(2), "w")


TERMINAL = pytest.StashKey()


@pytest.fixture(autouse=True)
def no_test_hangs(request):
    """Ends the run, and shows where every thread is, if a test takes too long."""
    faulthandler.dump_traceback_later(HANGS_AFTER, exit=True, file=request.config.stash[TERMINAL])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def initialized():
    """acl.init, once; a test may have done it before."""
    ret = acl.init()
    assert ret in (0, kit.REPEAT_INITIALIZE), kit.message()


@pytest.fixture
def device(initialized):
    """Device 0, current in the thread of the test."""
    kit.ok(acl.rt.set_device(0))
    yield 0


@pytest.fixture
def stream(device):
    """A stream of its own."""
    stream = kit.ok(acl.rt.create_stream())
    yield stream
    kit.ok(acl.rt.destroy_stream(stream))
