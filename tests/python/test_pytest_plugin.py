"""The plugin of pytest, tried on small suites in processes of their own: what --ferry puts in place, findings that fail the test that made them,
markers that choose a machine, xdist, and what is refused.
"""
import importlib.util
import json
import sys
import xml.etree.ElementTree

import pytest

pytest_plugins = ["pytester"]

# What the suites share: a stream, and an upload whose source is used again with or without a wait.
KIT = """import acl

def ok(result):
    ret = result[-1] if isinstance(result, tuple) else result
    assert ret == 0, acl.get_recent_err_msg()
    return result[0] if isinstance(result, tuple) else None

def stream():
    assert acl.init() in (0, 100002)
    ok(acl.rt.set_device(0))
    return ok(acl.rt.create_stream())

def upload(stream, waits):
    host, device = ok(acl.rt.malloc_host(4096)), ok(acl.rt.malloc(4096, 0))
    ok(acl.rt.memset(host, 4096, 1, 4096))
    ok(acl.rt.memcpy_async(device, 4096, host, 4096, 1, stream))  # WORK
    if waits:
        ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.memset(host, 4096, 2, 4096))  # ACCESS
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.rt.free(device))
    ok(acl.rt.free_host(host))
"""
WORK, ACCESS = (next(line for line, text in enumerate(KIT.splitlines(), 1) if word in text) for word in ("# WORK", "# ACCESS"))


@pytest.fixture
def suite(pytester, monkeypatch):
    """Runs a test file in a process of its own, as a user would. Returns what came of it."""
    # Settings of the machine that these tests run on are none of the suite's.
    for name in ("PYTEST_ADDOPTS", "FERRY_PYTEST", "FERRY_CHECK_SOCKET", "FERRY_DEVICES", "FERRY_SOC", "FERRY_SCHEDULE"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(suite_kit=KIT)

    def run(source, *words):
        pytester.makepyfile(test_suite=source)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *words)

    return run


IN_PLACE = """
import ctypes, os, subprocess, sys

CHILD = "import ctypes; ctypes.CDLL('libascendcl.so').aclrtGetSocName; ctypes.CDLL('libhccl.so'); print('found')"

def test_library():
    assert ctypes.CDLL("libascendcl.so").aclInit
    assert "libascendcl.so" in open("/proc/self/maps").read()

def test_children():
    assert subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout == "found\\n"

def test_toolkit():
    for name, folder in (("ASCEND_HOME_PATH", "runtime"), ("ASCEND_HOME_PATH", "compiler"), ("ASCEND_OPP_PATH", ".")):
        assert os.path.isdir(os.path.join(os.environ[name], folder)), name

def test_npu_smi():
    said = subprocess.run(["npu-smi", "info", "-l"], capture_output=True, text=True, check=True).stdout
    assert "Total Count" in said

def test_settings():
    assert os.environ.get("FERRY_TORCH") == TORCH
    assert os.environ.get("FERRY_DEVICES") == "5"

def test_fails():
    assert False, "a wrong result"
"""


@pytest.mark.parametrize("torch", [False, True])
def test_everything_is_in_place_before_the_first_import(suite, torch):
    words = ["--ferry-torch"] if torch else ["--ferry"]
    result = suite(IN_PLACE.replace("== TORCH", f"== {'1' if torch else None!r}"), *words, "--ferry-devices", "5")
    result.assert_outcomes(passed=5, failed=1)
    # The exit code and the terminal are those of the one that was started anew.
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ferry: Ascend910B1, backend host", "*a wrong result*"])


def test_an_option_in_the_ini_file_is_as_good(suite, pytester):
    pytester.makeini("[pytest]\naddopts = --ferry\n")
    suite("import os\n\ndef test_it():\n    assert 'libascendcl' in os.environ['LD_PRELOAD']\n").assert_outcomes(passed=1)


def test_without_our_options_nothing_happens(suite):
    source = "import os\n\ndef test_it():\n    assert 'FERRY_PYTEST' not in os.environ and 'LD_PRELOAD' not in os.environ\n"
    result = suite(source, "-W", "error", "--strict-markers")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("ferry:*")


CHECKED = """
import pytest
from suite_kit import ok, stream as new_stream, upload

@pytest.fixture(scope="module")
def stream():
    return new_stream()

@pytest.fixture
def careless(stream):
    yield
    upload(stream, False)

def test_good(stream):
    upload(stream, True)

def test_bad(stream):
    upload(stream, False)

def test_good_again(stream):
    upload(stream, True)

def test_bad_again(stream):
    upload(stream, False)

def test_bad_and_wrong(stream):
    upload(stream, False)
    assert False, "a wrong result"

def test_careless_fixture(careless):
    pass

@pytest.mark.xfail
def test_known(stream):
    upload(stream, False)

def test_skipped(stream):
    pytest.skip("not here")
"""


def properties(case):
    return [(each.get("name"), each.get("value")) for each in case.iter("property")]


def test_a_finding_fails_the_test_that_made_it_and_no_other(suite, pytester):
    result = suite(CHECKED, "--ferry-check", "--ferry-sarif", "findings.sarif", "--junitxml", "junit.xml", "-v")
    # The failing tests, and the end of one that passed.
    result.assert_outcomes(passed=3, failed=3, errors=1, xfailed=1, skipped=1)
    result.stdout.fnmatch_lines_random(
        ["*::test_good PASSED*", "*::test_good_again PASSED*", "*::test_bad FAILED*", "*::test_bad_again FAILED*", "*::test_known XFAIL*"]
    )
    # Both stacks, where the failure is, in the form that problem matchers read.
    kit = str(pytester.path / "suite_kit.py")
    result.stdout.fnmatch_lines(
        [
            "*_ test_bad _*",
            f"{kit}:{ACCESS}: error: two operations touch the same bytes and nothing orders them [[]FERRY-STREAM-RACE[]]",
            f"*#0 upload  {kit}:{ACCESS}",
            "  aclrtMemcpyAsync in stream *",
            f"*#0 upload  {kit}:{WORK}",
        ]
    )
    result.stdout.fnmatch_lines(["*_ test_bad_and_wrong _*", "*a wrong result*", "*ferry check*", f"{kit}:{ACCESS}: error: *"])
    cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(pytester.path / "junit.xml").iter("testcase")}
    assert properties(cases["test_good"]) == properties(cases["test_good_again"]) == []
    found = [("ferry_finding", "FERRY-STREAM-RACE"), ("ferry_access", f"{kit}:{ACCESS} upload"), ("ferry_work", f"aclrtMemcpyAsync: {kit}:{WORK} upload")]
    for name in ("test_bad", "test_bad_again", "test_bad_and_wrong", "test_careless_fixture"):
        # Behind the innermost line come its callers.
        assert [(key, value.split(", ")[0]) for key, value in properties(cases[name])] == found, name
    sarif = json.loads((pytester.path / "findings.sarif").read_text())
    places = [each["locations"][0]["physicalLocation"] for each in sarif["runs"][0]["results"]]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [("suite_kit.py", ACCESS)] * 5


def test_a_finding_of_a_process_that_a_test_starts_fails_the_test(suite):
    source = """
import subprocess, sys

def test_parent():
    code = "from suite_kit import stream, upload; upload(stream(), False)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_next():
    pass
"""
    result = suite(source, "--ferry-check", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*::test_parent FAILED*", "*::test_next PASSED*"])


def test_what_is_found_while_no_test_runs_fails_the_run(suite):
    source = "from suite_kit import stream, upload\nupload(stream(), False)\n\ndef test_it():\n    pass\n"
    result = suite(source, "--ferry-check")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*ferry check: found while no test ran*", "*FERRY-STREAM-RACE*"])


def test_copies_that_are_lost_when_the_process_ends_fail_the_run(suite):
    source = """
from suite_kit import acl, ok, stream

def test_it():
    lane = stream()
    host, device = ok(acl.rt.malloc_host(4096)), ok(acl.rt.malloc(4096, 0))
    ok(acl.rt.memcpy_async(device, 4096, host, 4096, 1, lane))
"""
    result = suite(source, "--ferry-check")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stderr.fnmatch_lines(["*FERRY-LOST*", "ferry check: 1 error"])


def test_suppressed_findings_fail_nothing(suite, pytester):
    (pytester.path / "known").write_text("FERRY-STREAM-RACE\naccess upload\n")
    source = "from suite_kit import stream, upload\n\ndef test_it():\n    upload(stream(), False)\n"
    result = suite(source, "--ferry-check", "--ferry-suppress", "known")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK


MARKED = """
import os
import pytest
from suite_kit import acl, ok, stream as new_stream, upload

log = []

@pytest.fixture(scope="module")
def stream():
    log.append("made")
    yield new_stream()
    log.append("ended")

def test_before(stream):
    assert ok(acl.rt.get_device_count()) == 2
    assert log == ["made"]

@pytest.mark.ferry(soc="Ascend910_9391", devices=3)
class TestOther:
    def test_machine(self, stream):
        assert acl.get_soc_name() == "Ascend910_9391"
        assert ok(acl.rt.get_device_count()) == 3
        type(self).process = os.getpid()

    def test_the_same_process(self, stream):
        assert self.process == os.getpid() and log == ["made"]

    @pytest.mark.ferry(devices=4)
    def test_nearer_marker(self, stream):
        assert ok(acl.rt.get_device_count()) == 4
        assert acl.get_soc_name() == "Ascend910_9391"

def peek(stream):
    # What the destination has before anybody waits; plain loads, which no schedule knows of.
    host, device = ok(acl.rt.malloc_host(4096)), ok(acl.rt.malloc(4096, 0))
    ok(acl.rt.memset(host, 4096, 0, 4096))
    ok(acl.rt.memset(device, 4096, 7, 4096))
    ok(acl.rt.memcpy_async(host, 4096, device, 4096, 2, stream))
    seen = acl.util.ptr_to_bytes(host, 1)
    ok(acl.rt.synchronize_stream(stream))
    return seen

@pytest.mark.ferry(schedule="late")
def test_late(stream):
    assert peek(stream) == bytes([0])

@pytest.mark.ferry(schedule="early")
def test_early(stream):
    assert peek(stream) == bytes([7])

@pytest.mark.ferry(schedule="shuffle", seed=7)
@pytest.mark.parametrize("text", ["a b", "x[1]"])
def test_seed(text, tmp_path, record_property):
    record_property("text", text)
    assert os.environ["FERRY_SEED"] == "7" and (tmp_path / "x").write_text(text)

@pytest.mark.ferry(devices=1)
def test_killed():
    print("before the end", flush=True)
    os.kill(os.getpid(), 9)

@pytest.mark.ferry(devices=1)
def test_wrong():
    print("said by the child")
    assert 1 == 2

def test_after(stream):
    assert log == ["made"]
"""


def test_markers_choose_the_machine_and_the_order_of_work(suite, pytester):
    result = suite(MARKED, "--ferry", "-v", "--strict-markers", "--junitxml", "junit.xml")
    result.assert_outcomes(passed=9, failed=2)
    result.stdout.fnmatch_lines(["*::test_killed FAILED*", "*::test_wrong FAILED*"])
    result.stdout.fnmatch_lines(["*the process of this test was killed by signal 9*"])
    cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(pytester.path / "junit.xml").iter("testcase")}
    assert properties(cases["test_seed[a b]"]) == [("text", "a b")]


def test_a_finding_in_a_process_of_its_own_fails_the_test(suite):
    source = """
import pytest
from suite_kit import stream, upload

@pytest.mark.ferry(schedule="late")
@pytest.mark.parametrize("waits", [True, False])
def test_it(waits):
    upload(stream(), waits)

def test_next():
    upload(stream(), True)
"""
    result = suite(source, "--ferry-check", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*test_it[[]True[]] PASSED*", "*test_it[[]False[]] FAILED*", "*FERRY-STREAM-RACE*"])


def test_fixtures_of_a_module_end_behind_a_test_that_ran_elsewhere(suite, pytester):
    pytester.makepyfile(test_zz_other="def test_it():\n    pass\n")
    source = """
import pytest

@pytest.fixture(scope="module")
def shared():
    yield
    print("the fixture ends")

def test_here(shared):
    pass

@pytest.mark.ferry(devices=3)
def test_elsewhere(shared):
    pass
"""
    result = suite(source, "--ferry", "-s")
    result.assert_outcomes(passed=3)
    assert result.stdout.str().count("the fixture ends") == 2


def test_the_first_failure_ends_the_run(suite):
    source = """
import pytest
pytestmark = pytest.mark.ferry(devices=3)

def test_one():
    assert False

def test_two():
    pass
"""
    suite(source, "--ferry", "-x").assert_outcomes(failed=1)


def test_a_marker_that_makes_no_sense_is_refused(suite):
    source = "import pytest\n\n@pytest.mark.ferry(speed=3)\ndef test_it():\n    pass\n"
    result = suite(source, "--ferry")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*mark.ferry has speed; it takes schedule, seed, soc, devices, fault*"])


def test_a_program_cannot_be_started_anew(suite, pytester):
    pytester.makepyfile(program="import pytest, sys\nsys.exit(pytest.main(['--ferry']))\n")
    result = pytester.run(sys.executable, "program.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*start that with ferry run*"])


@pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="there is no xdist")
def test_workers_of_xdist_judge_their_own_tests(suite, pytester):
    source = """
import os
import pytest
from suite_kit import acl, ok, stream, upload

@pytest.mark.parametrize("number", range(8))
def test_it(number):
    upload(stream(), number % 2 == 0)

@pytest.mark.ferry(devices=3)
def test_elsewhere():
    stream()
    assert ok(acl.rt.get_device_count()) == 3
    assert "PYTEST_XDIST_WORKER" in os.environ
"""
    result = suite(source, "--ferry-check", "-n", "2", "--junitxml", "junit.xml")
    result.assert_outcomes(passed=5, failed=4)
    cases = {case.get("name"): case for case in xml.etree.ElementTree.parse(pytester.path / "junit.xml").iter("testcase")}
    for number in range(8):
        found = [value for name, value in properties(cases[f"test_it[{number}]"]) if name == "ferry_finding"]
        assert found == ["FERRY-STREAM-RACE"] * (number % 2), number
